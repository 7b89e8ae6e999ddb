// SPDX-License-Identifier: Apache-2.0
// Profile as JSON, in the format of INTERFACE, with units in the keys. "device" is an index into "devices", "from" and "to" are
// ranks.
#include <motley/profile.h>

#include <fmt/format.h>

#include <limits>

#include "base/json_fields.h"
#include "kernels/kernel_spec_json.h"

namespace motley {

namespace {

constexpr double kMostFinite = std::numeric_limits<double>::max();
constexpr double kLeastRun = 1e-12, kMostRun = 1e6;  // of a kernel, a step or a message: others were not measured

struct Raw {
  Profile profile{};
  std::vector<KernelPoint> kernels{};
  std::vector<std::size_t> places{};  // positions in the file's list
};

template <class T>
Field<T> seconds(const char* name, const char* doc, double T::*member) {
  return {name, doc, "number", true,
          [member](Reader& reader, const Json& json, T& out) { reader.number(json, out.*member, 0, kMostRun); }};
}

Field<Spread> run_seconds(const char* name, const char* doc, double Spread::*member) {
  return {name, doc, "number", true, [member](Reader& reader, const Json& json, Spread& out) {
            double found = 0;
            if (!reader.number(json, found, std::numeric_limits<double>::lowest(), kMostFinite)) return;
            if (found >= kLeastRun && found <= kMostRun)
              out.*member = found;
            else
              reader.complain(json,
                              fmt::format("expected the seconds of a run, from {} to {}, found {}; leave this out and measure "
                                          "it again with: motley profile JOB",
                                          kLeastRun, kMostRun, found));
          }};
}

template <class T>
Field<T> small_integer(const char* name, const char* doc, int T::*member, int least, bool required = true) {
  return {name, doc, "integer", required, [member, least](Reader& reader, const Json& json, T& out) {
            std::int64_t value = 0;
            if (reader.integer(json, value, least, 1 << 24)) out.*member = static_cast<int>(value);
          }};
}

const Table<DeviceFacts>& device_fields() {
  static const Table<DeviceFacts> table{
      text_field("name", "of the device in its mesh", &DeviceFacts::name, true),
      text_field("kind", "cpu, cuda or emulated", &DeviceFacts::kind, true),
      text_field("model", "what the vendor calls it", &DeviceFacts::model, true),
      text_field("isa", "what its kernels use", &DeviceFacts::isa, true),
      small_integer("threads", "of the kernels", &DeviceFacts::threads, 0),
      text_field("library", "name and version", &DeviceFacts::library, true),
      text_field("host", "empty: the one that measured", &DeviceFacts::host, false),
      {"alone_over_shared", "of its kernels' seconds, other ranks of the host idle over busy", "number", false,
       [](Reader& reader, const Json& json, DeviceFacts& out) { reader.number(json, out.alone_over_shared, 0.01, 1); }},
      {"slow", "upper quartile of kernel time over its time on the quiet machine", "number", false,
       [](Reader& reader, const Json& json, DeviceFacts& out) { reader.number(json, out.slow, 1e-6, 1e6); }},
      {"fast", "lower quartile", "number", false,
       [](Reader& reader, const Json& json, DeviceFacts& out) { reader.number(json, out.fast, 1e-6, 1e6); }}};
  return table;
}

const Table<Spread>& spread_fields() {
  static const Table<Spread> table{
      run_seconds("min", "least of all runs, seconds", &Spread::min), run_seconds("q25", "lower quartile, seconds", &Spread::q25),
      run_seconds("median", "median, seconds", &Spread::median), small_integer("n", "runs", &Spread::n, 1)};
  return table;
}

const Table<KernelPoint>& kernel_fields() {
  static const Table<KernelPoint> table{
      small_integer("device", "index into devices", &KernelPoint::device, 0),
      {"spec", "which computation", "object", true,
       [](Reader& reader, const Json& json, KernelPoint& out) { read_kernel_spec(reader, json, out.spec); }},
      {"seconds", "min, q25, median, n; not where the device cannot compute it", "object", false,
       [](Reader& reader, const Json& json, KernelPoint& out) { reader.object(json, spread_fields(), out.seconds); }},
      {"implementation", "which kernel ran; null: the device cannot compute it", "text or null", false,
       [](Reader& reader, const Json& json, KernelPoint& out) {
         out.supported = !std::holds_alternative<std::nullptr_t>(json.value);
         if (out.supported) reader.text(json, out.implementation);
       }},
      small_integer("choices", "implementations timed, of which it is the fastest; 1 without", &KernelPoint::choices, 1, false),
      {"workspace_bytes", "that it needs beside its operands; 0 without", "integer", false,
       [](Reader& reader, const Json& json, KernelPoint& out) { reader.integer(json, out.workspace_bytes, 0, Index{1} << 53); }}};
  return table;
}

// Whether a point was written by an older motley, which also measured activations in blocks of channels, wrote `margin` for `halo`,
// and named pointwise functions, updates and activations instead of writing formulas. It is measured again.
bool is_obsolete(const Json& point) {
  const Json* const spec = point.find("spec");
  if (spec == nullptr) return false;
  if (spec->find("margin") != nullptr || spec->find("activation") != nullptr) return true;
  const auto says = [&](const char* key, std::initializer_list<const char*> words) {
    const Json* const value = spec->find(key);
    const auto* const word = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
    return word != nullptr && std::any_of(words.begin(), words.end(), [&](const char* one) { return *word == one; });
  };
  return says("op", {"fold", "sgd", "accumulate"}) || says("x_format", {"blocked8", "blocked16"}) ||
         says("w_format", {"blocked8", "blocked16"}) || says("y_format", {"blocked8", "blocked16"});
}

const Table<LinkSegment>& segment_fields() {
  static const Table<LinkSegment> table{
      {"bytes_up_to", "largest message of the segment", "integer", true,
       [](Reader& reader, const Json& json, LinkSegment& out) { reader.integer(json, out.bytes_up_to, 0); }},
      seconds("seconds", "of a message without bytes", &LinkSegment::seconds),
      {"bytes_per_second", "at least 1", "number", true,
       [](Reader& reader, const Json& json, LinkSegment& out) { reader.number(json, out.bytes_per_second, 1, kMostFinite); }}};
  return table;
}

const Table<Link>& link_fields() {
  static const Table<Link> table{
      small_integer("from", "rank that sends", &Link::from, 0),
      small_integer("to", "rank that receives", &Link::to, 0),
      list_field<Link>("segments", "by size, ascending", &Link::segments, segment_fields(), true),
      list_field<Link>("in_place", "reading what the other has just written in shared memory, by size, ascending", &Link::in_place,
                       segment_fields(), false),
      {"exchange_seconds", "of an exchange in shared memory without bytes", "number", false,
       [](Reader& reader, const Json& json, Link& out) { reader.number(json, out.exchange_seconds.emplace(), 0, kMostRun); }}};
  return table;
}

const Table<DeviceLink>& device_link_fields() {
  static const Table<DeviceLink> table{
      small_integer("device", "index into devices", &DeviceLink::device, 0),
      list_field<DeviceLink>("to_device", "copies from pinned memory, by size, ascending", &DeviceLink::to_device, segment_fields(),
                             true),
      list_field<DeviceLink>("from_device", "copies to pinned memory", &DeviceLink::from_device, segment_fields(), true)};
  return table;
}

const Table<Profile::Completed>& completed_fields() {
  static const Table<Profile::Completed> table{
      {"hash", "of step, mesh and rules", "text", true,
       [](Reader& reader, const Json& json, Profile::Completed& out) { reader.text(json, out.hash); }},
      {"kernels", "that the profile had then", "integer", true, [](Reader& reader, const Json& json, Profile::Completed& out) {
         std::int64_t kernels = 0;
         reader.integer(json, kernels, 0);
         out.kernels = static_cast<std::size_t>(kernels);
       }}};
  return table;
}

Json object(std::initializer_list<std::pair<const char*, Json>> members) {
  Json out{Json::Object{}};
  for (const auto& [key, value] : members) out.set(key, value);
  return out;
}

template <class T>
Field<T> ratio(const char* name, const char* doc, double T::*member) {
  return {name, doc, "number", true,
          [member](Reader& reader, const Json& json, T& out) { reader.number(json, out.*member, 1e-9, 1e9); }};
}

const Table<TimedPlan>& over_reference_fields() {
  static const Table<TimedPlan> table{
      ratio("q25", "lower quartile over the rounds", &TimedPlan::q25), ratio("median", "over the rounds", &TimedPlan::median),
      ratio("q75", "upper quartile", &TimedPlan::q75), small_integer("n", "rounds", &TimedPlan::n, 1)};
  return table;
}

const Table<TimedPlan>& timed_plan_fields() {
  static const Table<TimedPlan> table{
      text_field("decisions", "hash of the plan's parts", &TimedPlan::decisions, true),
      text_field("name", "for people", &TimedPlan::name, false),
      {"over_reference", "seconds of its steps over those of the reference in the same rounds", "object", true,
       [](Reader& reader, const Json& json, TimedPlan& out) { reader.object(json, over_reference_fields(), out); }}};
  return table;
}

const Table<TimedSteps>& timed_steps_fields() {
  static const Table<TimedSteps> table{
      text_field("step", "hash of step, mesh, rules and dtype", &TimedSteps::step, true),
      text_field("devices", "hash of the devices and their libraries", &TimedSteps::devices, true),
      text_field("build", "motley's version", &TimedSteps::build, true),
      text_field("reference", "decisions of the plan that the others are relative to", &TimedSteps::reference, false),
      {"reference_seconds", "of its steps on the slowest rank", "object", false,
       [](Reader& reader, const Json& json, TimedSteps& out) { reader.object(json, spread_fields(), out.reference_seconds); }},
      list_field<TimedSteps>("rows", "plans", &TimedSteps::plans, timed_plan_fields(), true)};
  return table;
}

Json to_json(const Spread& s) {
  return object({{"min", s.min}, {"q25", s.q25}, {"median", s.median}, {"n", s.n}});
}

Json to_json(const TimedSteps& steps) {
  Json out = object({{"step", steps.step}, {"devices", steps.devices}, {"build", steps.build}});
  if (!steps.reference.empty()) out.set("reference", steps.reference).set("reference_seconds", to_json(steps.reference_seconds));
  Json rows{Json::Array{}};
  for (const TimedPlan& p : steps.plans)
    rows.push(object({{"decisions", p.decisions},
                      {"name", p.name},
                      {"over_reference", object({{"q25", p.q25}, {"median", p.median}, {"q75", p.q75}, {"n", p.n}})}}));
  return out.set("rows", std::move(rows));
}

const Table<Raw>& profile_fields() {
  static const Table<Raw> table{
      {"version", "1", "integer", true,
       [](Reader& reader, const Json& json, Raw&) {
         std::int64_t version = 0;
         reader.integer(json, version, 1, 1);
       }},
      {"devices", "what was measured", "list", true,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) {
           out.profile.devices.emplace_back();
           reader.object(one, device_fields(), out.profile.devices.back());
         });
       }},
      {"kernels", "measured points", "list", true,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t i) {
           if (is_obsolete(one)) return;
           out.places.push_back(i);
           reader.object(one, kernel_fields(), out.kernels.emplace_back());
         });
       }},
      {"links", "measured links", "list", false,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) {
           out.profile.links.emplace_back();
           reader.object(one, link_fields(), out.profile.links.back());
         });
       }},
      {"device_links", "between pinned memory and devices' memory", "list", false,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) {
           out.profile.device_links.emplace_back();
           reader.object(one, device_link_fields(), out.profile.device_links.back());
         });
       }},
      {"complete_for", "what was measured to the end", "list", false,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) {
           reader.object(one, completed_fields(), out.profile.complete_for.emplace_back());
         });
       }},
      {"steps", "real steps of plans, timed in turn", "list", false,
       [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) {
           reader.object(one, timed_steps_fields(), out.profile.steps.emplace_back());
         });
       }},
      {"notes", "informative", "list", false, [](Reader& reader, const Json& json, Raw& out) {
         reader.list(json, [&](const Json& one, std::size_t) { reader.text(one, out.profile.notes.emplace_back()); });
       }}};
  return table;
}

// Checks that the tables cannot make: indices and orders.
void check_whole(const Json& json, const Raw& raw, Reader& reader) {
  const auto devices = raw.profile.devices.size();
  const auto check_device = [&](int device, const std::string& at) {
    if (static_cast<std::size_t>(device) < devices) return;
    const Json* value = json.at(at);
    reader.complaints.add(value ? value->where : json.where, at,
                          "device " + std::to_string(device) + " of " + std::to_string(devices) + " (counted from 0)");
  };
  for (std::size_t i = 0; i < raw.kernels.size(); i++) {
    const std::string at = "/kernels/" + std::to_string(raw.places[i]);
    check_device(raw.kernels[i].device, at + "/device");
    if (const Spread& s = raw.kernels[i].seconds; s.min > s.q25 || s.q25 > s.median)
      reader.complaints.add(json.at(at + "/seconds")->where, at + "/seconds",
                            "expected \"min\" of at most \"q25\", and this of at most \"median\"");
    if (raw.kernels[i].supported != (raw.kernels[i].seconds.n == 0)) continue;
    const Json* value = json.at(at);
    reader.complaints.add(value ? value->where : json.where, at,
                          raw.kernels[i].supported
                              ? "expected \"seconds\", or \"implementation\": null where the device cannot compute it"
                              : "\"implementation\": null says that the device cannot compute it: expected no \"seconds\"");
  }
  const auto check_order = [&](const std::vector<LinkSegment>& segments, const std::string& at) {
    const Json* value = json.at(at);
    bool ordered = !segments.empty();
    for (std::size_t k = 1; k < segments.size(); k++) ordered = ordered && segments[k - 1].bytes_up_to < segments[k].bytes_up_to;
    if (!ordered)
      reader.complaints.add(value ? value->where : json.where, at, "expected at least one segment, with ascending bytes_up_to");
  };
  for (std::size_t i = 0; i < raw.profile.links.size(); i++) {
    for (const auto& [key, rank] : {std::pair{"from", raw.profile.links[i].from}, {"to", raw.profile.links[i].to}})
      check_device(rank, "/links/" + std::to_string(i) + "/" + key);
    check_order(raw.profile.links[i].segments, "/links/" + std::to_string(i) + "/segments");
    if (!raw.profile.links[i].in_place.empty())
      check_order(raw.profile.links[i].in_place, "/links/" + std::to_string(i) + "/in_place");
  }
  for (std::size_t i = 0; i < raw.profile.device_links.size(); i++) {
    const std::string at = "/device_links/" + std::to_string(i);
    check_device(raw.profile.device_links[i].device, at + "/device");
    check_order(raw.profile.device_links[i].to_device, at + "/to_device");
    check_order(raw.profile.device_links[i].from_device, at + "/from_device");
  }
}

Json segments_json(const std::vector<LinkSegment>& segments) {
  Json::Array out;
  for (const LinkSegment& s : segments)
    out.push_back(object({{"bytes_up_to", s.bytes_up_to}, {"seconds", s.seconds}, {"bytes_per_second", s.bytes_per_second}}));
  return Json(std::move(out));
}

}  // namespace

Profile Profile::parse(const std::string& name, const std::string& text) {
  Complaints complaints;
  const std::optional<Json> json = read_json(name, text, complaints, kByMotley);
  complaints.raise();
  Raw raw;
  Reader reader{complaints};
  reader.object(*json, profile_fields(), raw);
  complaints.raise();
  check_whole(*json, raw, reader);
  complaints.raise();
  for (KernelPoint& point : raw.kernels) raw.profile.add(std::move(point));
  return std::move(raw.profile);
}

Profile Profile::load(const std::filesystem::path& file) {
  return parse(file.string(), read_file(file.string()));
}

std::string Profile::json() const {
  Json out = object({{"version", 1}});
  Json::Array list;
  for (const DeviceFacts& d : devices) {
    list.push_back(object(
        {{"name", d.name}, {"kind", d.kind}, {"model", d.model}, {"isa", d.isa}, {"threads", d.threads}, {"library", d.library}}));
    if (!d.host.empty()) list.back().set("host", d.host);
    if (d.alone_over_shared != 1) list.back().set("alone_over_shared", d.alone_over_shared);
    if (d.slow != 1) list.back().set("slow", d.slow);
    if (d.fast != 1) list.back().set("fast", d.fast);
  }
  out.set("devices", std::exchange(list, {}));
  for (const KernelPoint& k : kernels_) {
    list.push_back(object({{"device", k.device}, {"spec", to_json_value(k.spec)}}));
    if (!k.supported) {
      list.back().set("implementation", nullptr);
      continue;
    }
    list.back().set("seconds", to_json(k.seconds)).set("implementation", k.implementation);
    if (k.choices > 1) list.back().set("choices", k.choices);
    if (k.workspace_bytes > 0) list.back().set("workspace_bytes", k.workspace_bytes);
  }
  out.set("kernels", std::exchange(list, {}));
  for (const Link& l : links) {
    list.push_back(object({{"from", l.from}, {"to", l.to}, {"segments", segments_json(l.segments)}}));
    if (!l.in_place.empty()) list.back().set("in_place", segments_json(l.in_place));
    if (l.exchange_seconds) list.back().set("exchange_seconds", *l.exchange_seconds);
  }
  out.set("links", std::exchange(list, {}));
  for (const DeviceLink& l : device_links)
    list.push_back(
        object({{"device", l.device}, {"to_device", segments_json(l.to_device)}, {"from_device", segments_json(l.from_device)}}));
  if (!list.empty()) out.set("device_links", std::exchange(list, {}));
  for (const Completed& one : complete_for)
    list.push_back(object({{"hash", one.hash}, {"kernels", static_cast<std::int64_t>(one.kernels)}}));
  if (!list.empty()) out.set("complete_for", std::exchange(list, {}));
  for (const TimedSteps& one : steps) list.push_back(to_json(one));
  if (!list.empty()) out.set("steps", std::exchange(list, {}));
  for (const std::string& note : notes) list.push_back(note);
  if (!list.empty()) out.set("notes", std::move(list));
  return to_text(out, 2) + "\n";
}

void Profile::save(const std::filesystem::path& file) const {
  write_file(file.string(), json());
}

}  // namespace motley
