// SPDX-License-Identifier: Apache-2.0
#include "config/job.h"

#include <motley/profile.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "balance/variables.h"
#include "base/utf8.h"
#include "config/check.h"
#include "config/job_tree.h"
#include "config/unbuilt.h"
#include "mesh/mesh_json.h"
#include "plan/check_rules.h"
#include "plan/rules_json.h"
#include "profiler/measure_kernels.h"
#include "train/same_network.h"

namespace motley {

namespace {

const std::vector<std::string> kMeasures{"if_missing", "always", "never"};
constexpr std::size_t kMostName = 233;  // bytes: of the 255 of a file's name, a run's directory adds "-20260131T235959Z-1000"

std::string too_long(const std::string& name) {
  return "a job's name becomes part of a directory name: expected at most " + std::to_string(kMostName) + " bytes, found " +
         std::to_string(name.size());
}

struct JobParts {
  std::string name{};
  MeshParts mesh{};
  std::optional<ModelSpec> model{};
  std::optional<LayoutRules> rules{};
  ProfileOptions profile{};
  std::optional<DataOptions> data{};
  std::optional<TrainOptions> train{};
  std::optional<SampleKind> expected{};  // of the data, as far as the model determines it; none: the model's inputs are not known
  std::vector<StateEntry> network{};     // parameters and statistics; empty: the training step could not be built
  DataReport report{};
};

const Table<ProfileOptions>& profile_table() {
  static const Table<ProfileOptions> table{
      version_field<ProfileOptions>(VersionKey::optional),
      path_field("path", "path of the profile; default: in the user's cache", &ProfileOptions::path),
      word_field("measure", "if_missing, always or never", &ProfileOptions::measure, kMeasures)};
  return table;
}

class JobReader {
 public:
  JobReader(JobTree& tree, Complaints& complaints) : tree_(tree), complaints_(complaints) {}

  JobParts read() {
    JobParts parts;
    Reader r{complaints_};
    r.object(tree_.root(), table(), parts);
    if (parts.train && parts.data) check_samples(parts);
    if (parts.train) check_watched(parts);
    hold_together(parts);
    return parts;
  }

  // Complaints of f about the part `key` get the pointer in the file that they are about; those about --set the pointer in the
  // joined tree.
  template <class F>
  void inside(const std::string& key, F&& f) {
    const std::size_t before = complaints_.list.size();
    const bool file = tree_.from_file(*tree_.root().find(key));
    Reader r{complaints_, file ? "" : "/" + key};
    f(r);
    for (std::size_t i = before; i < complaints_.list.size(); i++)
      if (addressed_.insert(i).second && file && tree_.from_set(complaints_.list[i].where))
        complaints_.list[i].path = "/" + key + complaints_.list[i].path;
  }

  Json schema() { return object_schema(table()); }

  // The data's files, and whether they hold a batch.
  DataReport check_data_files(const DataOptions& data, const std::optional<SampleKind>& expected,
                              const std::optional<TrainOptions>& train, Depth depth) {
    const bool good = complaints_.empty();
    DataReport report;
    inside("data", [&](Reader& r) {
      report = check_files(r, *tree_.root().find("data"), data,
                           expected.value_or(SampleKind{.any_labels = true, .any_samples = true}), train ? train->seed : 0, depth);
    });
    if (good && report.samples && train) check_batch(train->batch, *report.samples);
    if (good && report.lacks_test && train) complain_watching(*train, {to_mend(data)});
    return report;
  }

  // Checks that a profile that the job names exists where it is needed and none may be measured, and that a file of this name is a
  // profile.
  void require_profile(const ProfileOptions& profile, const std::optional<LayoutRules>& rules) {
    if (profile.path.empty() || !rules) return;
    const bool there = std::filesystem::exists(profile.path), needed = needs_profile(*rules);
    if (!there && !(needed && profile.measure == MeasureWhen::never)) return;
    inside("profile", [&](Reader& r) {
      const Json& tree = *tree_.root().find("profile");
      if (!there) return complain_below(r, tree, "/path", missing_profile(profile.path), Exit::missing);
      try {
        if (needed && profile.measure == MeasureWhen::always) return require_profile_place(profile.path);
        static_cast<void>(Profile::load(profile.path));
      } catch (const UserError& e) {
        const std::string text = e.what();  // with its place in that file, and perhaps further complaints
        complain_below(r, tree, "/path", text.substr(0, text.find('\n')), e.code());
      }
    });
  }

  // Whether the weights that training begins with are of this network.
  void check_initial(const JobParts& parts) {
    const InitialOptions& initial = parts.train->initial;
    if (initial.weights.empty() || parts.network.empty()) return;
    inside("train", [&](Reader& r) {
      const Json& tree = *tree_.root().find("train");
      const auto refuse = [&](const std::string& text, Exit code) { complain_below(r, tree, "/initial/weights", text, code); };
      try {
        const OpenWeights found = compared_weights(initial.weights, parts.network, initial.fresh);
        for (const std::string& wrong : found.unknown_fresh) complain_below(r, tree, "/initial/new", wrong);
        for (const std::string& one : found.differences)
          refuse(found.file->name() + ": " + one + (&one == &found.differences.front() ? how_to_begin(initial, found.mends) : ""),
                 Exit::data);
      } catch (const UserError& e) {
        refuse(e.what(), e.code());
      }
    });
  }

 private:
  // The key that makes a training begin with all but these tensors, where they are few.
  static std::string how_to_begin(const InitialOptions& initial, std::vector<std::string> drawn) {
    constexpr std::size_t kFew = 4;
    if (drawn.size() > kFew) return "; \"new\": [...] beside \"weights\" names tensors that are drawn again";
    drawn.insert(drawn.begin(), initial.fresh.begin(), initial.fresh.end());
    return "; to begin with the rest and draw what differs: \"initial\": { \"weights\": ..., \"new\": " +
           to_text(Json(Json::Array(drawn.begin(), drawn.end()))) + " }";
  }

  // Reads one part with read(reader, json, version) under the pointer in the part's file.
  template <class F>
  auto read_part(const std::string& key, const Json& j, F&& read)
      -> decltype(read(std::declval<Reader&>(), j, VersionKey::optional)) {
    if (tree_.broken(key)) return {};
    const bool file = tree_.from_file(j);
    decltype(read(std::declval<Reader&>(), j, VersionKey::optional)) part{};
    inside(key, [&](Reader& r) { part = read(r, j, file ? VersionKey::required : VersionKey::optional); });
    return part;
  }

  static Json path_or(Json object) { return schema_of_any({schema_of_type("text"), std::move(object)}); }

  Table<JobParts> table() {
    return {version_field<JobParts>(VersionKey::required),
            {"name", "name of the job, at most 233 bytes; default: the file's", "text", false,
             [](Reader& r, const Json& j, JobParts& p) {
               if (!r.text(j, p.name)) return;
               if (p.name.empty() || p.name.find_first_of(std::string("/\0", 2)) != std::string::npos || p.name[0] == '.')
                 r.complain(j, "a job's name becomes part of a directory name: expected no slash and no leading dot");
               if (without_controls(p.name, "", 0) != p.name)
                 r.complain(j, "a job's name becomes part of a directory name: expected no control characters");
               if (p.name.size() > kMostName) r.complain(j, too_long(p.name));
             }},
            {"mesh", "the devices: a path or the object", "text or object", true,
             [this](Reader&, const Json& j, JobParts& p) { p.mesh = read_part("mesh", j, read_mesh_parts); },
             path_or(mesh_schema(VersionKey::optional))},
            {"model", "the layers: a path or the object", "text or object", true,
             [this](Reader&, const Json& j, JobParts& p) {
               p.model = read_part("model", j, [](Reader& r, const Json& m, VersionKey v) -> std::optional<ModelSpec> {
                 return read_model(r, m, v);
               });
             },
             path_or(model_schema(VersionKey::optional))},
            {"layout", "how dims are cut: \"auto\", a path or the object; default: auto, the planner chooses", "text or object",
             false, [this](Reader&, const Json& j, JobParts& p) { p.rules = read_part("layout", j, read_rules); },
             path_or(rules_schema(VersionKey::optional))},
            {"profile", "where measured times are stored, when to measure: a path or the object", "object", false,
             [](Reader& r, const Json& j, JobParts& p) {
               r.object(j, profile_table(), p.profile);
               p.profile.given = true;
             },
             path_or(object_schema(profile_table()))},
            {"data", "what to train on: { \"kind\": ... }", "object", true,
             [this](Reader&, const Json& j, JobParts& p) { p.data = read_part("data", j, read_data); },
             path_or(object_schema(data_table(VersionKey::optional)))},
            {"train", "how to train", "object", true,
             [this](Reader&, const Json& j, JobParts& p) { p.train = read_part("train", j, read_train); },
             path_or(object_schema(train_table(VersionKey::optional)))}};
  }

  // Checks that need several parts: as far as each of them is known.
  void hold_together(JobParts& parts) {
    std::optional<Passes> passes;
    Unbuilt unbuilt{.anything = true};
    if (parts.model) {
      const Json& tree = *tree_.root().find("model");
      inside("model", [&](Reader& r) {
        const Model model =
            build_model(*parts.model, parts.train ? parts.train->batch : 0,
                        [&](const std::string& pointer, const std::string& text) { complain_below(r, tree, pointer, text); });
        if (parts.data && are_inputs_known(*parts.model, model)) check_data(r, tree, parts, model);
        passes = passes_of(r, tree, model, parts);
        unbuilt = unbuilt_of(tree, *parts.model, model);
        if (parts.train && passes && passes->trains) tune(parts, model, passes);
      });
    }
    if (parts.rules) inside("layout", [&](Reader& r) { check_layout(r, passes, unbuilt, parts); });
  }

  // What is frozen changes the step, if its patterns are good.
  void tune(JobParts& parts, const Model& model, std::optional<Passes>& passes) {
    const TrainOptions& train = *parts.train;
    std::vector<std::string> parameters;
    for (const int p : passes->parameters)
      if (passes->is_trained(p)) parameters.push_back(at(passes->tensors, p).name);
    parts.network = entries_of(*passes, train.dtype());
    const std::vector<PatternComplaint> wrong = wrong_patterns(train.freeze, train.groups, parameters);
    inside("train", [&](Reader& r) {
      for (const PatternComplaint& c : wrong) complain_below(r, *tree_.root().find("train"), c.pointer, c.text);
    });
    const auto is_bad = [](const std::string& pattern) { return pattern.empty(); };  // that has been complained about
    const bool bad = std::any_of(train.freeze.begin(), train.freeze.end(), is_bad) ||
                     std::any_of(train.groups.begin(), train.groups.end(), [&](const auto& group) { return is_bad(group.match); });
    if (wrong.empty() && !train.freeze.empty() && !bad)
      passes = training(model.loss, train.optimizer, planned_options(train)).passes();
  }

  // Passes of the training step with nothing frozen, or of the layers that could be built.
  static std::optional<Passes> passes_of(Reader& r, const Json& tree, const Model& model, const JobParts& parts) {
    std::string refused;  // error of the training step: what its forward pass cannot do, the layers cannot do either
    try {
      if (model.whole) {
        TrainOptions train = parts.train.value_or(TrainOptions{});
        train.freeze.clear();
        train.groups.clear();
        return training(model.loss, train.optimizer, planned_options(train)).passes();
      }
    } catch (const UserError& e) {
      refused = e.what();
      complain_below(r, tree, place_of(e, *parts.model), refused);
    }
    try {  // rules may name these
      if (!model.layers.empty()) return inference(model.layers).passes();
    } catch (const UserError& e) {
      if (e.what() != refused) complain_below(r, tree, place_of(e, *parts.model), e.what());
    }
    return std::nullopt;
  }

  // Rules under "axes": "auto": those that name an axis, and those that leave no layout open.
  static std::vector<RuleComplaint> complaints_of_open_axes(const LayoutRules& rules) {
    std::vector<RuleComplaint> out;
    const auto look = [&](const std::string& at, const std::vector<Rule>& of) {
      for (const Rule& rule : of)
        if (!rule.axes.names.empty())
          out.push_back({at + "/" + rule.dim,
                         "the mesh's \"axes\" are \"auto\", so they have no names to cut this dim over; expected \"auto\" or null "
                         "here, or a list of { \"name\", \"size\" } as the mesh's \"axes\""});
    };
    look("/split", rules.split);
    for (const auto& [name, of] : rules.tensors) look("/tensors/" + name, of);
    if (out.empty() && !rules.open.any())
      out.push_back({"",
                     "the mesh's \"axes\" are \"auto\", which are chosen together with the layout, and this layout leaves nothing "
                     "open; expected \"layout\": \"auto\", or a list of { \"name\", \"size\" } as the mesh's \"axes\""});
    return out;
  }

  void check_layout(Reader& r, const std::optional<Passes>& passes, const Unbuilt& unbuilt, JobParts& parts) {
    const Json& layout = *tree_.root().find("layout");
    if (const DeviceOrder& order = parts.rules->arrangement; parts.mesh.open_axes && parts.mesh.whole && !order.axes.empty()) {
      std::optional<Mesh> mesh = mesh_in_order(order, *parts.mesh.whole);
      if (!mesh)
        return complain_below(r, layout, "/arrangement",
                              "this layout is for " + order_text(order) + "; expected the devices of the mesh, " +
                                  order_text(order_of(*parts.mesh.whole)) +
                                  ", each once; a layout for these: motley plan --layout");
      parts.mesh = {mesh->axes(), mesh->devices(), std::move(mesh), false};
    }
    if (parts.mesh.open_axes)
      if (const std::vector<RuleComplaint> wrong = complaints_of_open_axes(*parts.rules); !wrong.empty()) {
        for (const RuleComplaint& c : wrong) complain_below(r, layout, c.pointer, c.text);
        return;
      }
    auto address = [](const auto& known) { return known ? &*known : nullptr; };
    RuleSubject subject{.passes = address(passes),
                        .mesh = address(parts.mesh.whole),
                        .axes = address(parts.mesh.axes),
                        .devices = address(parts.mesh.devices)};
    if (parts.model) subject.model_batch = parts.model->batch();
    subject.may_be = [&](const std::string& name) { return unbuilt.may_be(name); };
    for (const Complaints::One& one : complaints_.list) {
      if (tree_.from_file(layout) && one.where.source == layout.where.source) subject.refused.push_back(one.path);
      if (one.path.starts_with("/layout/")) subject.refused.push_back(one.path.substr(std::string("/layout").size()));
    }
    const std::vector<RuleComplaint> complaints = check_rules(subject, *parts.rules);
    for (const RuleComplaint& c : complaints) complain_below(r, layout, c.pointer, c.text);
    if (!complaints.empty() || !subject.refused.empty() || !parts.mesh.whole || !passes || !passes->trains) return;
    if (const auto c = check_layouts(*passes, *parts.mesh.whole, *parts.rules)) complain_below(r, layout, c->pointer, c->text);
  }

  void check_samples(JobParts& parts) {
    const Index batch = parts.train->batch;
    DataOptions& data = *parts.data;
    if (data.kind == DataKind::synthetic && data.samples == 0) data.samples = 8 * batch;
    const Index most = data.kind == DataKind::synthetic       ? data.samples
                       : data.kind == DataKind::fashion_mnist ? 60000
                       : data.kind == DataKind::cifar10       ? 50000
                                                              : batch;
    check_batch(batch, most);  // a validation part takes some of them: known once the files are read
  }

  void check_batch(Index batch, Index samples) {
    if (batch <= samples) return;
    inside("train", [&](Reader& r) {
      complain_below(r, *tree_.root().find("train"), "/batch",
                     "a batch of " + std::to_string(batch) + " is more than the " + std::to_string(samples) +
                         " samples of the data; make it smaller");
    });
  }

  // What gives data a test part.
  static std::string to_mend(const DataOptions& data) {
    const std::string also = data.kind == DataKind::npy      ? "\"test_images\" and \"test_labels\", or "
                             : data.kind == DataKind::folder ? "a folder test or val beside train, or "
                             : data.kind == DataKind::tokens ? "a longer \"test_path\", or "
                                                             : "";
    return also + "\"validation\": 0.1 to \"data\", which has no test part";
  }

  // Keys of "train" by which evaluations decide: needs: what is to be added, for there to be some.
  void complain_watching(const TrainOptions& train, const std::vector<std::string>& needs) {
    if (needs.empty()) return;
    inside("train", [&](Reader& r) {
      for (const WatchingKey& key : watching_keys(train))
        complain_below(
            r, *tree_.root().find("train"), key.pointer,
            "nothing is evaluated in training; add " + needs.front() + (needs.size() > 1 ? ", and " + needs.back() : ""));
    });
  }

  void check_watched(const JobParts& parts) {
    const TrainOptions& train = *parts.train;
    std::vector<std::string> needs;
    if (train.evaluate_every_epochs == 0) needs.emplace_back("\"evaluate_every_epochs\": 1 to \"train\"");
    // A folder that is missing is complained about elsewhere.
    const bool known = parts.data && (parts.data->kind != DataKind::folder || std::filesystem::is_directory(parts.data->path));
    if (known && !is_evaluated(*parts.data)) needs.push_back(to_mend(*parts.data));
    complain_watching(train, needs);
    if (!parts.model || !parts.model->loss.good || parts.model->loss.has_classes()) return;
    inside("train", [&](Reader& r) {
      for (const auto& [pointer, watch] : watching_keys(train))
        if (watch == Watched::test_accuracy)
          complain_below(r, *tree_.root().find("train"), pointer == "/schedule/kind" ? "/schedule/watch" : pointer,
                         "the loss " + parts.model->loss.op + " has no accuracy; watch \"test_loss\"");
    });
  }

  // Tokens: numbers over positions, and a label for each.
  static void check_tokens_fit(Reader& r, const Json& tree, const Model& model, const std::string& at) {
    const Tensor& input = model.inputs.front();
    if (input.shape().rank() != 2 || input.dtype() != DType::i32)
      return complain_below(r, tree, at,
                            "tokens are integers, one per position; expected \"dtype\": \"i32\" and one dim after the batch");
    const Shape expected = input.shape();
    if (model.whole && (model.label.shape().rank() != 2 || model.label.shape()[1].size != expected[1].size))
      complain_below(r, tree, "/loss",
                     "each of the " + std::to_string(expected[1].size) +
                         " positions has a label, the next token; expected logits of the dims \"" + expected[0].name + "\", \"" +
                         expected[1].name + "\" and the loss's \"over\"");
  }

  // Whether all inputs could be read and the name of the labels is known.
  static bool are_inputs_known(const ModelSpec& spec, const Model& model) {
    const auto samples = std::count_if(spec.inputs.begin(), spec.inputs.end(),
                                       [&](const InputSpec& input) { return input.name != spec.loss.labels; });
    return samples > 0 && static_cast<std::ptrdiff_t>(model.inputs.size()) == samples && spec.bad_inputs.empty() &&
           (spec.loss.good || spec.inputs.size() == 1);
  }

  // The batch must be the first dim, then the extents of a sample; and as many classes as labels.
  void check_data(Reader& r, const Json& tree, JobParts& parts, const Model& model) {
    const Tensor& image = model.inputs.front();
    const Shape& shape = image.shape();
    const std::string at = "/inputs/" + image.name(), batch = parts.model->batch_dim();
    const SampleKind nothing{.dtype = image.dtype(), .any_labels = true};
    parts.expected = nothing;
    if (shape[0].name != batch) {  // for several inputs this has been said already
      if (model.inputs.size() == 1)
        complain_below(r, tree, at, "\"" + batch + "\" counts the samples; expected it as the first dim");
      return;
    }
    if (shape.rank() < 2) return complain_below(r, tree, at, "a sample has at least one dim after \"" + batch + "\"");
    try {
      parts.expected = samples_of(*parts.model, model);
    } catch (const UserError&) {
      return;  // the training step cannot be built either: that has been complained about
    }
    inside("data", [&](Reader& data) { check_changes(data, *tree_.root().find("data"), *parts.data, *parts.expected); });
    const std::size_t before = complaints_.list.size();
    check_kind(r, tree, parts, model);
    if (complaints_.list.size() != before) parts.expected = nothing;  // so that the data's files are not complained about too
  }

  // Checks that data of this kind can be what the model reads.
  static void check_kind(Reader& r, const Json& tree, const JobParts& parts, const Model& model) {
    const Tensor& image = model.inputs.front();
    const Shape& shape = image.shape();
    const std::string at = "/inputs/" + image.name();
    const DataKind kind = parts.data->kind;
    if (kind == DataKind::folder && (shape.rank() != 4 || (shape[1].size != 1 && shape[1].size != 3)))
      complain_below(
          r, tree, at,
          "images of a folder have channels (1 or 3), rows and columns; expected these three dims after \"" + shape[0].name + "\"");
    if (!parts.model->loss.has_classes() && kind != DataKind::synthetic && kind != DataKind::npy)
      return complain_below(
          r, tree, "/loss/op",
          "labels of " + to_string(kind) + " are classes; expected softmax_cross_entropy; other losses need npy or synthetic data");
    if (kind == DataKind::tokens) return check_tokens_fit(r, tree, model, at);
    if (image.dtype() == DType::i32 && kind != DataKind::synthetic && kind != DataKind::npy)
      return complain_below(
          r, tree, at,
          "samples of " + to_string(kind) + " are not integers; leave \"dtype\" out, or use tokens, npy or synthetic data");
    if (kind == DataKind::synthetic || kind == DataKind::npy || kind == DataKind::folder) return;
    const std::vector<Index> wanted = kind == DataKind::cifar10 ? std::vector<Index>{3, 32, 32} : std::vector<Index>{1, 28, 28};
    const std::vector<Index>& found = parts.expected->extents;
    if (found != wanted)
      complain_below(r, tree, at,
                     "a sample of " + to_string(kind) + " is " + sizes_text(wanted) +
                         " (channels, rows, columns), this input's is " + sizes_text(found));
    if (const Index classes = parts.expected->classes; model.whole && classes < 10)
      complain_below(r, tree, "/loss/over",
                     to_string(kind) + " has 10 classes, \"" + parts.model->loss.over + "\" has the size " +
                         std::to_string(classes) + "; expected at least 10");
  }

  JobTree& tree_;
  Complaints& complaints_;
  std::set<std::size_t> addressed_{};  // complaints whose pointer is that of the job
};

JobParts read_parts(JobTree& tree, Complaints& complaints, Data data) {
  if (Json& root = tree.root(); std::holds_alternative<Json::Object>(root.value) && root.find("layout") == nullptr)
    root.set("layout", "auto");
  tree.resolve_paths();
  JobReader reader(tree, complaints);
  JobParts parts = reader.read();
  const Depth depth = data == Data::decoded ? Depth::samples : Depth::headers;
  if (parts.data && data != Data::unread) parts.report = reader.check_data_files(*parts.data, parts.expected, parts.train, depth);
  if (data != Data::unread) reader.require_profile(parts.profile, parts.rules);
  if (parts.train && data >= Data::with_weights) reader.check_initial(parts);
  return parts;
}

// Finds the complaints that would not be there without --set: by leaving out all of the arguments, then each.
void blame_sets(const JobTree& tree, Complaints& complaints, const std::string& path, const std::vector<std::string>& sets,
                Data data) {
  using Known = std::set<std::pair<std::string, std::string>>;
  const auto known_with = [&](const std::vector<std::string>& arguments, Data how) {
    Complaints found;
    JobTree other(found);
    if (other.load(path)) {
      for (const std::string& argument : arguments) other.set(argument);
      static_cast<void>(read_parts(other, found, how));
    }
    Known known;
    for (const Complaints::One& one : found.list) known.emplace(one.path, one.text);
    return known;
  };
  const Known as_written = known_with({}, data), without_files = known_with(sets, Data::unread);
  std::map<Data, std::vector<Known>> without;  // by argument left out; the data's files are read only for complaints about them
  for (Complaints::One& one : complaints.list) {
    if (tree.from_set(one.where) || as_written.contains({one.path, one.text})) continue;
    const Data how = without_files.contains({one.path, one.text}) ? Data::unread : data;
    std::vector<Known>& known = without[how];
    for (std::size_t i = known.size(); i < sets.size(); i++) {
      std::vector<std::string> others = sets;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      known.push_back(known_with(others, how));
    }
    std::set<std::string> needed;
    for (std::size_t i = 0; i < sets.size(); i++)
      if (!known[i].contains({one.path, one.text})) needed.insert(sets[i]);
    tree.blame_sets(one, needed);
  }
}

Job finish(JobTree& tree, JobParts parts, Complaints& complaints, const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  if (parts.name.empty() && stem.size() > kMostName)
    complaints.add(tree.root().where, "",
                   "without a \"name\" a job is called as its file; " + too_long(stem) + "; give it a \"name\"");
  complaints.raise();
  check(parts.mesh.whole && parts.model && parts.rules && parts.data && parts.train, "a part that is not read is complained about");
  if (!parts.rules->arrangement.axes.empty()) {  // the mesh has it
    for (Json::Member& member : std::get<Json::Object>(tree.root().value))
      if (member.key == "mesh") member.value = to_json(*parts.mesh.whole);
    parts.rules->arrangement = {};
  }
  if (parts.mesh.whole->ranks() == 1) parts.rules->open = {};  // there is nothing to choose
  if (parts.name.empty()) {
    parts.name = stem;
    tree.root().set("name", parts.name);
  }
  return {parts.name,
          std::move(*parts.mesh.whole),
          parts.mesh.open_axes,
          {},
          std::move(*parts.model),
          std::move(*parts.rules),
          parts.profile,
          *parts.data,
          *parts.train,
          tree.root(),
          std::move(parts.report)};
}

}  // namespace

Job load_job(const std::string& path, const std::vector<std::string>& sets, Data data) {
  Complaints complaints;
  JobTree tree(complaints);
  if (!tree.load(path)) complaints.raise();
  require_job(tree.root(), complaints);
  for (const std::string& argument : sets) tree.set(argument);
  auto parts = read_parts(tree, complaints, data);
  if (!complaints.empty() && !sets.empty()) blame_sets(tree, complaints, path, sets, data);
  return finish(tree, std::move(parts), complaints, path);
}

Job parse_job(const std::string& name, const std::string& text) {
  Complaints complaints;
  JobTree tree(complaints);
  if (!tree.parse(name, text)) complaints.raise();
  auto parts = read_parts(tree, complaints, Data::unread);
  return finish(tree, std::move(parts), complaints, name);
}

Job with_mesh(const Job& job, const Mesh& mesh) {
  Json joined = job.joined;
  for (Json::Member& member : std::get<Json::Object>(joined.value))
    if (member.key == "mesh") member.value = to_json(mesh);
  Job out = parse_job("the job on its arranged mesh", to_text(joined, 2));
  out.report = job.report;
  return out;
}

Json job_schema() {
  Complaints none;
  JobTree empty(none);
  return JobReader(empty, none).schema();
}

SampleKind samples_of(const ModelSpec& spec, const Model& model) {
  std::optional<Step> forward;
  if (model.whole) forward = inference({model.logits});
  const auto of_input = [&](const Tensor& input) {
    SampleKind out{.dtype = input.dtype()};
    for (std::size_t i = 1; i < input.shape().rank(); i++) out.extents.push_back(input.shape()[i].size);
    if (forward && out.dtype == DType::i32) {
      const Passes& passes = forward->passes();
      const int t = passes.find(input.name());
      out.numbers = t < 0 ? 1 : std::max<Index>(1, at(passes.tensors, t).below);
    }
    return out;
  };
  SampleKind out = of_input(model.inputs.front());
  for (std::size_t k = 1; k < model.inputs.size(); k++) {
    out.further.push_back(of_input(model.inputs[k]));
    out.further.back().input = model.inputs[k].name();
  }
  out.any_labels = !model.whole;
  if (out.any_labels) return out;
  out.classes = spec.loss.has_classes() ? model.logits.shape().size_of(spec.loss.over) : 0;
  out.label_dtype = model.label.dtype();
  out.label_is_part = spec.loss.op == "binary_cross_entropy";
  out.ignored = spec.loss.ignore_index;
  for (std::size_t i = 1; i < model.label.shape().rank(); i++) out.label_extents.push_back(model.label.shape()[i].size);
  const auto ends_of = [](const Shape& shape) {
    return std::vector<Dim>(shape.dims().end() - std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(shape.rank())),
                            shape.dims().end());
  };
  out.label_per_pixel = out.label_extents.size() >= 2 && ends_of(model.label.shape()) == ends_of(model.inputs.front().shape());
  return out;
}

}  // namespace motley
