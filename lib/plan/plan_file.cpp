// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_file.h"

#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "base/json_fields.h"
#include "kernels/kernel_spec_json.h"
#include "plan/check_rules.h"
#include "plan/moved_once.h"
#include "plan/planner.h"
#include "plan/rules_json.h"
#include "plan/schedules.h"
#include "plan/tiles.h"

namespace motley {

namespace {

constexpr double kMostSeconds = 1e18;
constexpr std::int64_t kMostChunks = 1024;  // of a schedule, or tiles of a message; a plan takes 16 at most

struct PickFile {
  Index index = -1;
  std::vector<std::string> axes{};
  std::string name{}, per{};
  std::vector<std::vector<Index>> parts{};
};
struct PassFile {
  std::string pass{};
  std::vector<PickFile> picks{};
};
struct AxisFile {
  std::string name{};
  std::int64_t size = 0;
  bool operator==(const AxisFile&) const = default;
};
struct ParameterFile {
  std::string name{};
  std::int64_t option = 0;
};
struct HopFile {
  std::string tensor{}, hop{}, tree{};
  std::int64_t chunks = 1, tiles = 0;
};
struct HomeFile {
  std::string parameter{};
  std::int64_t rank = 0;
  std::vector<std::vector<Index>> box{};
};
struct Decisions {
  std::string step{}, dtype{};
  std::vector<std::string> network{};  // empty: in a file of an older motley
  std::vector<AxisFile> axes{};
  std::vector<std::string> devices{};  // names; empty: in a file of an older motley
  LayoutRules rules{};
  std::vector<PassFile> passes{};
  std::vector<ParameterFile> parameters{};
  std::vector<HopFile> hops{};
  std::vector<HomeFile> homes{};
  std::vector<std::vector<ChosenKernel>> implementations{};  // empty: no device has a choice
  std::vector<std::vector<KernelSpec>> apart{};              // empty: none
  bool parameters_stay = false;                              // false in files of older motleys, where they did not
};
struct PlanFile {
  Decisions decisions{};
  std::optional<std::string> evaluation{};  // a text of this form
  std::string made_for{};
  std::vector<CutChoice> cuts{};
  std::vector<LayerChoice> layout{};
  AxesChoice axes{};
  std::vector<IdleDevice> idle{};
  std::vector<std::string> notes{};
  std::optional<double> step_seconds{}, step_q25{}, step_q75{};
  std::vector<PredictedRank> ranks{};
  Baseline baselines{};
};

template <class T>
Field<T> unread(const char* name, const char* doc) {  // follows from the decisions
  return {name, doc, "any", false, [](Reader&, const Json&, T&) {}};
}

void read_sizes(Reader& r, const Json& j, std::vector<Index>& out) {
  r.list(j, [&](const Json& one, std::size_t) { r.integer(one, out.emplace_back(), 0); });
}

void read_lists(Reader& r, const Json& j, std::vector<std::vector<Index>>& out) {
  r.list(j, [&](const Json& one, std::size_t) { read_sizes(r, one, out.emplace_back()); });
}

const Table<PickFile>& pick_fields() {
  static const Table<PickFile> table{
      count_field("index", "of the pass", &PickFile::index),
      text_field("name", "the index's, informative", &PickFile::name, false),
      texts_field("axes", "of the mesh", &PickFile::axes),
      text_field("per", "the axis along which the lists differ", &PickFile::per, false),
      {"parts", "lists of sizes", "list", true, [](Reader& r, const Json& j, PickFile& out) { read_lists(r, j, out.parts); }}};
  return table;
}

const Table<PassFile>& pass_fields() {
  static const Table<PassFile> table{text_field("pass", "which one", &PassFile::pass),
                                     list_field("pick", "its indices that are cut", &PassFile::picks, pick_fields())};
  return table;
}

const Table<AxisFile>& axis_fields() {
  static const Table<AxisFile> table{text_field("name", "of the axis", &AxisFile::name),
                                     count_field("size", "of the axis", &AxisFile::size)};
  return table;
}

const Table<ParameterFile>& parameter_fields() {
  static const Table<ParameterFile> table{
      text_field("name", "of the parameter", &ParameterFile::name),
      count_field("option", "which of the layouts that its rules allow", &ParameterFile::option)};
  return table;
}

const Table<HopFile>& hop_fields() {
  auto word = [](const char* name, const char* doc, std::string HopFile::*member, const auto& words) {
    return Field<HopFile>{name, doc, "text", true,
                          [member, allowed = std::vector<std::string>(words.begin(), words.end())](
                              Reader& r, const Json& j, HopFile& out) { r.text(j, out.*member, allowed); }};
  };
  auto number = [](const char* name, const char* doc, std::int64_t HopFile::*member, std::int64_t least) {
    return Field<HopFile>{name, doc, "integer", true, [member, least](Reader& r, const Json& j, HopFile& out) {
                            r.integer(j, out.*member, least, kMostChunks);
                          }};
  };
  static const Table<HopFile> table{
      text_field("tensor", "that moves", &HopFile::tensor), word("hop", "add, copy or fill", &HopFile::hop, kHopNames),
      word("tree", "direct, ring, halving or two_level", &HopFile::tree, kTreeNames),
      number("chunks", "of a box", &HopFile::chunks, 1), number("tiles", "of a message; 0: not tiled", &HopFile::tiles, 0)};
  return table;
}

const Table<ChosenKernel>& chosen_fields() {
  static const Table<ChosenKernel> table{{"kernel", "which computation", "object", true,
                                          [](Reader& r, const Json& j, ChosenKernel& out) { read_kernel_spec(r, j, out.spec); }},
                                         text_field("implementation", "that computes it", &ChosenKernel::implementation)};
  return table;
}

void read_implementations(Reader& r, const Json& j, Decisions& out) {
  r.list(j, [&](const Json& rank, std::size_t) {
    auto& list = out.implementations.emplace_back();
    r.list(rank, [&](const Json& one, std::size_t) { r.object(one, chosen_fields(), list.emplace_back()); });
  });
}

void read_apart(Reader& r, const Json& j, Decisions& out) {
  r.list(j, [&](const Json& rank, std::size_t) {
    auto& list = out.apart.emplace_back();
    r.list(rank, [&](const Json& one, std::size_t) { read_kernel_spec(r, one, list.emplace_back()); });
  });
}

const Table<HomeFile>& home_fields() {
  static const Table<HomeFile> table{text_field("parameter", "that is stored", &HomeFile::parameter),
                                     {"rank", "which stores it", "integer", true,
                                      [](Reader& r, const Json& j, HomeFile& out) { r.integer(j, out.rank, 0, INT32_MAX); }},
                                     {"box", "a range of each of its dims", "list", true,
                                      [](Reader& r, const Json& j, HomeFile& out) { read_lists(r, j, out.box); }}};
  return table;
}

const Table<Decisions>& decision_fields() {
  static const Table<Decisions> table{
      text_field("step", "the hash of what is computed", &Decisions::step),
      texts_field("network", "its inputs, labels and parameters with their sizes", &Decisions::network, false),
      {"dtype", "of floats: f32 or f64", "text", true,
       [](Reader& r, const Json& j, Decisions& out) {
         r.text(j, out.dtype, {"f32", "f64"});
       }},
      list_field("axes", "of the mesh", &Decisions::axes, axis_fields()),
      texts_field("devices", "of the mesh, by rank", &Decisions::devices, false),
      {"rules", "every part", "object", true,
       [](Reader& r, const Json& j, Decisions& out) {
         if (auto rules = read_rules(r, j, VersionKey::required)) out.rules = std::move(*rules);
       }},
      list_field("passes", "which of their indices are cut", &Decisions::passes, pass_fields()),
      list_field("parameters", "parameters with several possible layouts", &Decisions::parameters, parameter_fields()),
      list_field("hops", "of tensors, those that are not direct or tiled", &Decisions::hops, hop_fields()),
      {"implementations", "per rank, where its device has a choice", "list", false, read_implementations},
      {"apart", "per rank, fused kernels that were measured slower than separate ones", "list", false, read_apart},
      boolean_field("parameters_stay",
                    "received parameters are kept from the first micro-batch to the last; otherwise they are sent in each",
                    &Decisions::parameters_stay),
      {"homes", "of parameters, where another plan decided them", "list", false, [](Reader& r, const Json& j, Decisions& out) {
         r.list(j, [&](const Json& one, std::size_t) { r.object(one, home_fields(), out.homes.emplace_back()); });
       }}};
  return table;
}

const Table<LayerChoice>& layout_fields() {
  static const Table<LayerChoice> table{
      text_field("layers", "that are cut together", &LayerChoice::layers), text_field("cut", "that was chosen", &LayerChoice::cut),
      text_field("next_best", "the other cut that costs least", &LayerChoice::next_best, false),
      number_or_null("next_best_seconds", "of the step with it", &LayerChoice::next_best_seconds, 0, kMostSeconds, false)};
  return table;
}

const Table<AxesChoice>& axes_fields() {
  static const Table<AxesChoice> table{
      text_field("chosen", "the arrangement of the devices", &AxesChoice::chosen),
      number_or_null("seconds", "of the step with it", &AxesChoice::seconds, 0, kMostSeconds),
      text_field("next_best", "the fastest of the others that were planned", &AxesChoice::next_best, false),
      number_or_null("next_best_seconds", "of the step with it", &AxesChoice::next_best_seconds, 0, kMostSeconds, false),
      count_field("complete_plans", "one for each arrangement that was compared", &AxesChoice::complete_plans),
      count_field("dropped", "arrangements without a complete plan", &AxesChoice::dropped)};
  return table;
}

const Table<IdleDevice>& idle_fields() {
  static const Table<IdleDevice> table{
      {"rank", "of the device", "integer", true,
       [](Reader& r, const Json& j, IdleDevice& out) {
         if (std::int64_t rank = 0; r.integer(j, rank, 0, INT32_MAX)) out.rank = static_cast<int>(rank);
       }},
      unread<IdleDevice>("device", "its name"),
      text_field("why", "it computes nothing", &IdleDevice::why),
      number_or_null("step_seconds_with_it", "of the best plan tried in which it computes something", &IdleDevice::with_it, 0,
                     kMostSeconds)};
  return table;
}

const Table<CutChoice>& cut_fields() {
  static const Table<CutChoice> table{
      text_field("dim", "that is cut", &CutChoice::dim),
      text_field("axis", "over which", &CutChoice::axis),
      text_field("per", "the axis along which the lists differ", &CutChoice::per, false),
      {"parts", "sizes; with per, lists of them", "list", true,
       [](Reader& r, const Json& j, CutChoice& out) {
         const auto* lists = std::get_if<Json::Array>(&j.value);
         if (lists == nullptr || lists->empty() || !std::holds_alternative<Json::Array>(lists->front().value))
           read_sizes(r, j, out.parts.emplace_back());
         else
           read_lists(r, j, out.parts);
       }},
      text_field("why", "these parts", &CutChoice::why, false)};
  return table;
}

const Table<PredictedRank>& predicted_rank_fields() {
  const auto seconds = [](const char* name, const char* doc, double PredictedRank::*member, bool required) {
    return Field<PredictedRank>{name, doc, "number or null", required, [member](Reader& r, const Json& j, PredictedRank& out) {
                                  if (!std::holds_alternative<std::nullptr_t>(j.value)) r.number(j, out.*member, 0, kMostSeconds);
                                }};
  };
  static const Table<PredictedRank> table{
      seconds("seconds", "busy", &PredictedRank::seconds, true),
      seconds("estimated_seconds", "of these, those of kernels that were not measured", &PredictedRank::estimated_seconds, false),
      count_field("bytes", "received per step", &PredictedRank::bytes),
      count_field("memory_bytes", "of tensors", &PredictedRank::memory_bytes)};
  return table;
}

const Table<PlanFile>& plan_fields() {
  static const Table<PlanFile> predicted{
      number_or_null("step_seconds", "of the slowest rank", &PlanFile::step_seconds, 0, kMostSeconds),
      number_or_null("step_seconds_q25", "lower quartile, from how the machine's speed varied while its profile was measured",
                     &PlanFile::step_q25, 0, kMostSeconds),
      number_or_null("step_seconds_q75", "upper quartile", &PlanFile::step_q75, 0, kMostSeconds),
      unread<PlanFile>("estimated_share", "of the seconds in which the ranks compute"),
      list_field("ranks", "per rank", &PlanFile::ranks, predicted_rank_fields())};
  static const Table<Baseline> baselines{number_or_null("even", "seconds", &Baseline::even, 0, kMostSeconds),
                                         number_or_null("proportional", "seconds", &Baseline::proportional, 0, kMostSeconds),
                                         number_or_null("fast_alone", "seconds", &Baseline::fast_alone, 0, kMostSeconds)};
  static const Table<PlanFile> table{
      unread<PlanFile>("version", "of the file"),
      text_field("made_for", "a hash of the job's mesh and layout", &PlanFile::made_for, false),
      {"evaluation", "the plan of the evaluation beside training", "object", false,
       [](Reader&, const Json& j, PlanFile& out) { out.evaluation = to_text(j); }},
      {"decisions", "everything else follows from these", "object", true,
       [](Reader& r, const Json& j, PlanFile& out) { r.object(j, decision_fields(), out.decisions); }},
      list_field("cuts", "informative", &PlanFile::cuts, cut_fields()),
      list_field("layout", "what was chosen for layers, informative", &PlanFile::layout, layout_fields(), false),
      {"axes", "what \"axes\": \"auto\" chose, informative", "object", false,
       [](Reader& r, const Json& j, PlanFile& out) { r.object(j, axes_fields(), out.axes); }},
      list_field("idle", "devices that compute nothing, and why, informative", &PlanFile::idle, idle_fields(), false),
      {"predicted", "seconds, bytes, memory", "object", true,
       [](Reader& r, const Json& j, PlanFile& out) { r.object(j, predicted, out); }},
      {"baselines", "other parts", "object", true,
       [](Reader& r, const Json& j, PlanFile& out) { r.object(j, baselines, out.baselines); }},
      texts_field("notes", "informative", &PlanFile::notes),
      unread<PlanFile>("tensors", "who holds and owns what"),
      unread<PlanFile>("exchanges", "what moves"),
      unread<PlanFile>("layers", "seconds of each layer")};
  return table;
}

// Whether the file has this version, or is not a plan at all. Complains.
bool check_version(Reader& r, const Json& j) {
  const Json* version = j.find("version");
  if (j.find("decisions") == nullptr) {
    const auto is_of = [&](const char* key) { return j.find(key) != nullptr; };  // a job, model, mesh or profile, layout
    if (!is_of("model") && !is_of("layers") && !is_of("devices") && !is_of("split")) return true;  // the tables say what is missing
    r.complain(j, "not a plan: it has no \"decisions\"; `motley plan -o FILE` writes plans");
    return false;
  }
  const auto* number = version == nullptr ? nullptr : std::get_if<std::int64_t>(&version->value);
  if (number != nullptr && *number == kPlanVersion) return true;
  if (version != nullptr && number == nullptr) {
    r.complain(*version, "\"version\" is a whole number, " + std::to_string(kPlanVersion) + " for plans that are read");
    return false;
  }
  r.complain(version == nullptr ? j : *version,
             std::string("this plan was made by ") + (number != nullptr && *number > kPlanVersion ? "a newer" : "an older") +
                 " motley; this one reads plans of version " + std::to_string(kPlanVersion) + "; make it again with `motley plan`");
  return false;
}

PlanFile read_plan(const std::string& name, const std::string& text) {
  return parse_json(
      name, text,
      [](Reader& r, const Json& j) {
        if (!check_version(r, j)) return std::optional<PlanFile>();
        std::optional<PlanFile> out(std::in_place);
        r.object(j, plan_fields(), *out);
        return out;
      },
      kByMotley);
}

[[noreturn]] void refuse(const std::string& name, const std::string& text) {
  throw UserError(name + ": " + text);
}

Pick pick_of(const std::string& name, const PassFile& from, const Pass& pass, const Mesh& mesh) {
  Pick out;
  for (const PickFile& p : from.picks) {
    auto unfit = [&](const std::string& what) { refuse(name, "pass \"" + pass.name + "\": " + what); };
    if (p.index >= static_cast<Index>(pass.indices.size())) unfit("it has no index " + std::to_string(p.index));
    PickPart part;
    part.index = static_cast<int>(p.index);
    std::size_t parts = 1, lists = 1;
    for (const std::string& a : p.axes) {
      part.cut.axes.push_back(mesh.axis(a));
      parts *= static_cast<std::size_t>(at(mesh.axes(), part.cut.axes.back()).size);
    }
    if (!p.per.empty()) {
      part.cut.per = mesh.axis(p.per);
      lists = static_cast<std::size_t>(at(mesh.axes(), part.cut.per).size);
    }
    for (const auto& sizes : p.parts) {
      part.cut.lists.push_back(Partition::of(sizes));
      const Index size = at(pass.indices, part.index).size;
      if (sizes.size() != parts || part.cut.lists.back().size() != size)
        unfit("its index \"" + p.name + "\" needs " + std::to_string(parts) + " parts that sum to " + std::to_string(size));
    }
    if (part.cut.lists.size() != lists) unfit("its index \"" + p.name + "\" needs " + std::to_string(lists) + " lists of parts");
    out.push_back(std::move(part));
  }
  return out;
}

void set_hops(const std::string& name, const std::vector<HopFile>& from, PlanData& data) {
  for (TensorPlan& t : data.tensors)
    for (const auto hop : kHops) (t.*hop).schedule = {};
  auto hop_of = [](const HopFile& h) {
    return at(kHops, std::find(kHopNames.begin(), kHopNames.end(), h.hop) - kHopNames.begin());
  };
  auto name_of = [](const HopFile& h) { return "/decisions/hops: hop \"" + h.hop + "\" of \"" + h.tensor + "\" "; };
  std::set<std::pair<std::string, std::string>> seen;
  for (const HopFile& h : from) {
    const int t = data.passes.find(h.tensor);
    if (t < 0) refuse(name, "/decisions/hops: the step has no tensor \"" + h.tensor + "\"");
    if (!seen.emplace(h.tensor, h.hop).second) refuse(name, name_of(h) + "is listed twice; keep one");
    const auto tree = std::find(kTreeNames.begin(), kTreeNames.end(), h.tree) - kTreeNames.begin();
    Hop& hop = at(data.tensors, t).*hop_of(h);
    hop.schedule = {static_cast<Tree>(tree), static_cast<int>(h.chunks)};
    hop.tiles = static_cast<int>(h.tiles);
  }
  for (const HopFile& h : from)
    if (h.tiles > 0 && !may_tile(data, data.passes.find(h.tensor), hop_of(h)))
      refuse(name, name_of(h) + "cannot be tiled: kernels cannot be cut at its messages; write \"tiles\": 0");
}

std::map<std::string, std::vector<Shard>> homes_of(const std::string& name, const std::vector<HomeFile>& from) {
  std::map<std::string, std::vector<Shard>> out;
  for (const HomeFile& h : from) {
    Shard one{static_cast<int>(h.rank), {}};
    for (const std::vector<Index>& range : h.box) {
      if (range.size() != 2) refuse(name, "/decisions/homes: a range of \"" + h.parameter + "\" must be [begin, end]");
      one.box.push_back({range[0], range[1]});
    }
    out[h.parameter].push_back(std::move(one));
  }
  return out;
}

PlanData data_from(const std::string& name, const Decisions& d, const Step& step, const Mesh& mesh) {
  const DType dtype = d.dtype == "f64" ? DType::f64 : DType::f32;
  const Passes passes = passes_for(step, d.rules);
  if (d.passes.size() != passes.passes.size())
    refuse(name, "it has " + std::to_string(d.passes.size()) + " passes, the step has " + std::to_string(passes.passes.size()));
  std::map<int, Pick> picks;
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    if (d.passes[p].pass != passes.passes[p].name)
      refuse(name, "pass " + std::to_string(p) + " is \"" + d.passes[p].pass + "\" there and \"" + passes.passes[p].name +
                       "\" in the step");
    picks[static_cast<int>(p)] = pick_of(name, d.passes[p], passes.passes[p], mesh);
  }
  Layouts layouts(passes, mesh, d.rules);
  for (const ParameterFile& p : d.parameters) {
    const int t = passes.find(p.name);
    if (t < 0 || p.option >= static_cast<std::int64_t>(layouts.options(t)))
      refuse(name, "parameter \"" + p.name + "\" has no layout option " + std::to_string(p.option));
    layouts.choose(t, static_cast<std::size_t>(p.option));
  }
  for (const auto& [p, pick] : picks) {
    const Pass& pass = at(passes.passes, p);
    if (const char* const wrong = pick_mistake(pass, pick, mesh, layouts); wrong != nullptr)
      refuse(name, "/decisions/passes/" + std::to_string(p) + "/pick: pass \"" + pass.name + "\": " + wrong);
  }
  PlanData data = plan_of_picks(passes, mesh, layouts, d.rules, picks, dtype);
  set_hops(name, d.hops, data);
  data.repeats = !d.parameters_stay && may_keep(passes);
  count_bytes(data);
  return data;
}

}  // namespace

void Plan::save(const std::filesystem::path& file) const {
  write_file(file.string(), json());
}

void check_plan_file(const std::filesystem::path& file) {
  static_cast<void>(read_plan(file.string(), read_file(file.string())));
}

Plan Plan::load(const std::filesystem::path& file, const Step& step, const Mesh& mesh) {
  return plan_of_text(file.string(), read_file(file.string()), step, mesh);
}

AxesChoice axes_of_text(const std::string& name, const std::string& text) {
  return parse_json(
      name, text,
      [](Reader& r, const Json& j) {
        std::optional<AxesChoice> out(std::in_place);
        r.object(j, axes_fields(), *out);
        return out;
      },
      kByMotley);
}

std::optional<std::string> evaluation_text(const std::string& name, const std::string& text) {
  return read_plan(name, text).evaluation;
}

std::string made_for(const std::string& name, const std::string& text) {
  return read_plan(name, text).made_for;
}

namespace {

constexpr const char* kMakeAgain = "; make it again with `motley plan` or balance()";

// "\"x\" there, \"y\" here" at the first place where two lists differ.
std::string first_difference(const std::vector<std::string>& there, const std::vector<std::string>& here) {
  const auto [a, b] = std::mismatch(there.begin(), there.end(), here.begin(), here.end());
  const auto word = [](const auto& at, const auto& end) { return at == end ? std::string("nothing") : "\"" + *at + "\""; };
  return word(a, there.end()) + " there, " + word(b, here.end()) + " here";
}

void require_same(const std::string& name, const Decisions& d, const Step& step, const Mesh& mesh) {
  if (d.step != hex(step.hash())) {
    const std::vector<std::string> network = network_of(step.passes());
    refuse(name, "this plan is for another step: " +
                     (d.network.empty() || d.network == network
                          ? std::string("its layers, loss, optimizer or options differ; inputs and parameters have the same sizes")
                          : "the first difference of their inputs and parameters is " + first_difference(d.network, network)) +
                     kMakeAgain);
  }
  std::vector<std::string> there, here, devices;
  for (const AxisFile& a : d.axes) there.push_back(a.name + " of " + std::to_string(a.size));
  for (const Axis& a : mesh.axes()) here.push_back(a.name + " of " + std::to_string(a.size));
  if (there != here) refuse(name, "this plan is for a mesh with other axes: " + first_difference(there, here) + kMakeAgain);
  for (const Device& one : mesh.devices()) devices.push_back(one.name);
  if (!d.devices.empty() && d.devices != devices)
    refuse(name, "this plan is for other devices: " + first_difference(d.devices, devices) + kMakeAgain);
}

}  // namespace

std::optional<Mesh> mesh_of_text(const std::string& name, const std::string& text, const Mesh& devices) {
  const Decisions decisions = read_plan(name, text).decisions;
  DeviceOrder order{{}, decisions.devices};
  for (const AxisFile& a : decisions.axes) order.axes.push_back({a.name, a.size});
  return mesh_in_order(order, devices);
}

Plan plan_of_text(const std::string& name, const std::string& text, const Step& step, const Mesh& mesh) {
  PlanFile from = read_plan(name, text);
  require_same(name, from.decisions, step, mesh);
  from.decisions.rules.homes = homes_of(name, from.decisions.homes);
  require_rules(step.passes(), mesh, from.decisions.rules);
  PlanData data = data_from(name, from.decisions, step, mesh);
  if (from.ranks.size() != data.predicted.size())
    refuse(name, "/predicted/ranks: wrong number of ranks, the mesh has " + std::to_string(data.predicted.size()) + " ranks");
  // Values that follow from the decisions are written for people; if they do not match, the file was changed by hand.
  for (std::size_t r = 0; r < from.ranks.size(); r++)
    if (from.ranks[r].bytes != data.predicted[r].bytes)
      refuse(name, "/predicted/ranks/" + std::to_string(r) + "/bytes is " + std::to_string(from.ranks[r].bytes) +
                       ", but its decisions give " + std::to_string(data.predicted[r].bytes));
  for (const CutChoice& c : from.cuts) {
    const auto rule =
        std::find_if(data.rules.split.begin(), data.rules.split.end(), [&](const Rule& one) { return one.dim == c.dim; });
    std::vector<std::vector<Index>> parts;
    if (rule != data.rules.split.end())
      for (const Partition& list : cut_of(step.passes(), mesh, *rule).lists) parts.push_back(list.sizes());
    if (parts != c.parts) refuse(name, "/cuts: the parts of \"" + c.dim + "\" are not those of /decisions/rules");
  }
  data.cuts = std::move(from.cuts);
  data.layout = std::move(from.layout);
  data.axes = std::move(from.axes);
  for (IdleDevice& one : from.idle)
    if (one.rank < mesh.ranks()) data.idle.push_back(std::move(one));
  data.notes = std::move(from.notes);
  data.step_seconds = from.step_seconds;
  data.step_q25 = from.step_q25 ? from.step_q25 : from.step_seconds;
  data.step_q75 = from.step_q75 ? from.step_q75 : from.step_seconds;
  data.predicted = std::move(from.ranks);
  data.baselines = from.baselines;
  if (const std::size_t named = from.decisions.implementations.size(); named > 0) {
    if (named != data.predicted.size())
      refuse(name,
             "/decisions/implementations: wrong number of ranks, the mesh has " + std::to_string(data.predicted.size()) + " ranks");
    data.implementations = std::move(from.decisions.implementations);
  }
  if (const std::size_t ranks = from.decisions.apart.size(); ranks > 0) {
    if (ranks != data.predicted.size())
      refuse(name, "/decisions/apart: wrong number of ranks, the mesh has " + std::to_string(data.predicted.size()) + " ranks");
    data.apart = std::move(from.decisions.apart);
  }
  data.hash = plan_hash(step, mesh, data.rules, {.dtype = data.dtype});
  return plan_from(step, mesh, std::move(data));
}

}  // namespace motley
