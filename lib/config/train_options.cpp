// SPDX-License-Identifier: Apache-2.0
#include "config/train_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/at.h"
#include "graph/optimizers.h"
#include "graph/training_ranges.h"
#include "weights/memory.h"

namespace motley {

namespace {

const std::vector<std::string> kTrainedTypes{"f32", "f64", "bf16"};
const std::vector<std::string> kDecays{"all", "weights"};
const std::vector<std::string> kRateKinds(kRateKindNames.begin(), kRateKindNames.end());

struct OptimizerFile {
  std::string kind{};
  double learning_rate = 0;
  std::map<std::string, double> values{};  // of the other keys
  Decay decay = Decay::all;
};

std::vector<std::string> optimizer_names() {
  std::vector<std::string> out;
  for (const auto& [name, kind] : OptimizerKind::all()) out.push_back(name);
  return out;
}

// The keys of all optimizers, each once; a key that not all of them have names those that have it.
const Table<OptimizerFile>& optimizer_table() {
  static const Table<OptimizerFile> table = [] {
    auto value = [](const OptimizerKey& key) {
      return [key](Reader& r, const Json& j, OptimizerFile& o) {
        double& its = o.values[key.name];
        if (bool on = false; key.flag) return static_cast<void>(r.boolean(j, on) && (its = on ? 1 : 0, true));
        if (!r.number(j, its, key.interval())) its = key.usual;  // the checks that follow use the default
      };
    };
    Table<OptimizerFile> out{
        {"kind", "which", "text", true, [](Reader& r, const Json& j, OptimizerFile& o) { r.text(j, o.kind, optimizer_names()); },
         schema_of_words(optimizer_names())},
        {learning_rate_key().name, learning_rate_key().doc, "number", true,
         [](Reader& r, const Json& j, OptimizerFile& o) { r.number(j, o.learning_rate, learning_rate_key().interval()); }}};
    std::map<std::string, std::vector<std::pair<std::string, const OptimizerKey*>>> keys;  // name -> optimizers
    for (const auto& [name, kind] : OptimizerKind::all())
      for (const OptimizerKey& key : kind.keys) keys[key.name].emplace_back(name, &key);
    std::size_t weight_decay = out.size();
    for (const auto& [key, its] : keys) {
      std::string doc;
      const OptimizerKey& first = *its.front().second;
      const bool one_text = std::all_of(its.begin(), its.end(), [&](const auto& k) { return k.second->doc == first.doc; });
      const bool one_value = std::all_of(its.begin(), its.end(), [&](const auto& k) { return k.second->usual == first.usual; });
      for (const auto& [name, its_key] : its) {
        const bool last = name == its.back().first;
        doc += (doc.empty() ? "" : one_text ? ", " : "; ") + name + (one_text && !last ? "" : ": " + its_key->doc);
        if (!one_value) doc += fmt::format(" (default {:g})", its_key->usual);
      }
      Json usual;
      if (one_value) usual = first.flag ? Json(first.usual != 0) : Json(first.usual);
      if (key == "weight_decay") weight_decay = out.size() + 1;
      out.push_back({key, doc, first.flag ? "boolean" : "number", false, value(first), {}, usual});
    }
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(weight_decay),
               word_field("decay", "which parameters decay: all, or \"weights\": without biases and the parameters of norms",
                          &OptimizerFile::decay, kDecays));
    return out;
  }();
  return table;
}

Optimizer read_optimizer(Reader& r, const Json& j) {
  OptimizerFile file;
  r.object(j, optimizer_table(), file);
  const auto kind = OptimizerKind::all().find(file.kind);
  if (kind == OptimizerKind::all().end()) return {};  // already complained about
  std::vector<double> values;
  for (const OptimizerKey& key : kind->second.keys) {
    const auto given = file.values.find(key.name);
    values.push_back(given == file.values.end() ? key.usual : given->second);
    file.values.erase(key.name);
  }
  for (const auto& [key, value] : file.values)  // keys of other optimizers
    if (const Json* given = j.find(key)) {
      const std::string text = file.kind + " has no \"" + key + "\"";
      r.in(key, [&] { r.complain(*given, text); });
    }
  try {
    return kind->second.make(file.learning_rate, values, file.decay);
  } catch (const UserError& e) {
    r.complain(j, e.what());
    return {};
  }
}

void read_rate(Reader& r, const Json& j, std::optional<double>& out, const Interval<double>& range) {
  if (double rate = 0; r.number(j, rate, range)) out = rate;
}

const Table<RateSchedule>& schedule_table() {
  const auto number = [](const char* name, const char* doc, double RateSchedule::*member, const Interval<double>& range) {
    return Field<RateSchedule>{name,
                               doc,
                               "number",
                               false,
                               [member, range](Reader& r, const Json& j, RateSchedule& s) { r.number(j, s.*member, range); },
                               {},
                               RateSchedule{}.*member};
  };
  static const Table<RateSchedule> table{
      {"kind",
       "constant; to `final` in the last step: linear, cosine, polynomial, one_cycle; step: at milestones; plateau: when "
       "evaluations no longer gain",
       "text", true,
       [](Reader& r, const Json& j, RateSchedule& s) {
         std::string kind;
         if (r.text(j, kind, kRateKinds))
           s.kind = static_cast<RateSchedule::Kind>(std::find(kRateKinds.begin(), kRateKinds.end(), kind) - kRateKinds.begin());
       },
       schema_of_words(kRateKinds)},
      {"warmup_steps",
       "steps of linear warm-up to the optimizer's learning rate; `kind` applies after them",
       "integer",
       false,
       [](Reader& r, const Json& j, RateSchedule& s) { r.integer(j, s.warmup_steps, TrainingRanges::warmup_steps); },
       {},
       std::int64_t{0}},
      {"final", "the learning rate of the last step; default: 0, of one_cycle 1 / 250000 of the optimizer's", "number", false,
       [](Reader& r, const Json& j, RateSchedule& s) { read_rate(r, j, s.final, TrainingRanges::final); }},
      {"milestones", "step: the steps, counted from 1, at which the learning rate is multiplied by `factor`", "list", false,
       [](Reader& r, const Json& j, RateSchedule& s) {
         r.list(j, [&](const Json& one, std::size_t) {
           if (Index step = 0; r.integer(one, step, TrainingRanges::milestone)) s.milestones.push_back(step);
         });
       }},
      {"factor",
       "step, plateau: factor of the learning rate at each milestone, each fall",
       "number",
       false,
       [](Reader& r, const Json& j, RateSchedule& s) { r.number(j, s.factor, TrainingRanges::factor); },
       {},
       RateSchedule{}.factor},
      {"initial", "one_cycle: the learning rate of the first step; default: 1 / 25 of the optimizer's", "number", false,
       [](Reader& r, const Json& j, RateSchedule& s) { read_rate(r, j, s.initial, TrainingRanges::initial); }},
      number("rise", "one_cycle: share of the steps in which the learning rate rises to the optimizer's", &RateSchedule::rise,
             TrainingRanges::rise),
      number("power", "polynomial: 1 is a line, more falls faster at first", &RateSchedule::power, TrainingRanges::power),
      word_field("watch", "plateau: what of an evaluation must gain: test_loss or test_accuracy", &RateSchedule::watch,
                 kWatchedWords),
      {"patience",
       "plateau: evaluations in succession without a gain that change nothing; one more and the learning rate falls",
       "integer",
       false,
       [](Reader& r, const Json& j, RateSchedule& s) { r.integer(j, s.patience, TrainingRanges::patience); },
       {},
       RateSchedule{}.patience},
      number("threshold", "plateau: a value is a gain if it is better than the best by more than this part of it",
             &RateSchedule::threshold, TrainingRanges::threshold),
      number("minimum", "plateau: the least learning rate", &RateSchedule::minimum, TrainingRanges::minimum)};
  return table;
}

// A key of a schedule, and the kinds that have it.
struct KeyOfKinds {
  const char* key;
  std::vector<RateSchedule::Kind> kinds{};
};
const std::vector<KeyOfKinds>& keys_of_kinds() {
  using Kind = RateSchedule::Kind;
  static const std::vector<KeyOfKinds> keys{
      {"warmup_steps", {Kind::constant, Kind::linear, Kind::cosine, Kind::step, Kind::polynomial, Kind::plateau}},
      {"final", {Kind::linear, Kind::cosine, Kind::polynomial, Kind::one_cycle}},
      {"milestones", {Kind::step}},
      {"factor", {Kind::step, Kind::plateau}},
      {"initial", {Kind::one_cycle}},
      {"rise", {Kind::one_cycle}},
      {"power", {Kind::polynomial}},
      {"watch", {Kind::plateau}},
      {"patience", {Kind::plateau}},
      {"threshold", {Kind::plateau}},
      {"minimum", {Kind::plateau}}};
  return keys;
}

// "linear, cosine and polynomial"
std::string names_of(const std::vector<RateSchedule::Kind>& kinds) {
  std::string out;
  for (const RateSchedule::Kind& kind : kinds)
    out += std::string(out.empty() ? "" : &kind == &kinds.back() ? " and " : ", ") + at(kRateKindNames, kind);
  return out;
}

void read_schedule(Reader& r, const Json& j, RateSchedule& schedule) {
  r.object(j, schedule_table(), schedule);
  const Json* given_kind = j.find("kind");
  const auto* name = given_kind == nullptr ? nullptr : std::get_if<std::string>(&given_kind->value);
  if (name == nullptr || std::find(kRateKinds.begin(), kRateKinds.end(), *name) == kRateKinds.end()) return;  // complained about
  using Kind = RateSchedule::Kind;
  const bool steps = schedule.kind == Kind::step;
  for (const auto& [key, kinds] : keys_of_kinds())
    if (const Json* given = j.find(key); given != nullptr && std::find(kinds.begin(), kinds.end(), schedule.kind) == kinds.end()) {
      const std::string text = std::string("a ") + at(kRateKindNames, schedule.kind) + " schedule has no \"" + key +
                               "\"; it is a key of " + names_of(kinds);
      r.in(key, [&] { r.complain(*given, text); });
    }
  if (const Json* factor = j.find("factor");
      factor != nullptr && schedule.kind == Kind::plateau && !TrainingRanges::fall.contains(schedule.factor))
    r.in("factor", [&] { r.number(*factor, schedule.factor, TrainingRanges::fall); });
  const Json* milestones = j.find("milestones");
  if (milestones == nullptr && steps) r.complain(j, "\"milestones\" is missing (the steps at which the learning rate falls)");
  const auto* list = milestones == nullptr ? nullptr : std::get_if<Json::Array>(&milestones->value);
  if (list == nullptr || list->size() != schedule.milestones.size()) return;  // already complained about
  if (const std::string wrong = wrong_milestones(schedule); !wrong.empty())
    r.in("milestones", [&] { r.complain(*milestones, wrong); });
}

const Table<CheckpointOptions>& checkpoint_table() {
  static const Table<CheckpointOptions> table{
      {"every_steps", "steps from one checkpoint to the next; one of the three every_... is required", "integer", false,
       [](Reader& r, const Json& j, CheckpointOptions& c) { r.integer(j, c.every_steps, TrainingRanges::steps); }},
      {"every_seconds", "seconds from one checkpoint to the next", "number", false,
       [](Reader& r, const Json& j, CheckpointOptions& c) { r.number(j, c.every_seconds, {.most = 1e9, .above = true}); }},
      {"every_epochs", "epochs from one checkpoint to the next", "integer", false,
       [](Reader& r, const Json& j, CheckpointOptions& c) { r.integer(j, c.every_epochs, TrainingRanges::epochs); }},
      {"keep",
       "number of checkpoints that are kept, the newest ones",
       "integer",
       false,
       [](Reader& r, const Json& j, CheckpointOptions& c) { r.integer(j, c.keep, 1); },
       {},
       CheckpointOptions{}.keep}};
  return table;
}

void read_checkpoint(Reader& r, const Json& j, CheckpointOptions& checkpoint) {
  if (!r.object(j, checkpoint_table(), checkpoint)) return;
  const std::vector<std::string> when{"every_steps", "every_seconds", "every_epochs"};
  const auto given = std::count_if(when.begin(), when.end(), [&](const std::string& key) { return j.find(key) != nullptr; });
  if (given == 0 && Reader::lacks(j, Reader::names_of(checkpoint_table()), when))
    r.complain(j, "\"every_steps\", \"every_seconds\" or \"every_epochs\" is missing (when to save)");
  if (given > 1)
    r.complain(j, "expected one of \"every_steps\", \"every_seconds\" and \"every_epochs\", found " + std::to_string(given));
}

}  // namespace

Table<TrainOptions> train_table(VersionKey version) {
  auto count = [](std::optional<Index> TrainOptions::*member, Interval<Index> range) {
    return [member, range](Reader& r, const Json& j, TrainOptions& t) {
      Index n = 0;
      if (r.integer(j, n, range)) t.*member = n;
    };
  };
  return {
      version_field<TrainOptions>(version),
      word_field("dtype", "type of stored values; bf16: activations and copies of weights are bf16, all else is f32",
                 &TrainOptions::precision, kTrainedTypes),
      {"batch", "samples per step", "integer", true,
       [](Reader& r, const Json& j, TrainOptions& t) { r.integer(j, t.batch, 1, Index{1} << 40); }},
      {"epochs", "passes over the data; this or max_steps is required", "integer", false,
       count(&TrainOptions::epochs, TrainingRanges::epochs)},
      {"max_steps", "number of steps; wins over epochs", "integer", false, count(&TrainOptions::max_steps, TrainingRanges::steps)},
      {"seed",
       "seed of all random numbers: initial weights, order of samples",
       "integer",
       false,
       [](Reader& r, const Json& j, TrainOptions& t) {
         std::int64_t seed = 0;
         if (r.integer(j, seed, 0)) t.seed = static_cast<std::uint64_t>(seed);
       },
       {},
       static_cast<std::int64_t>(TrainOptions{}.seed)},
      {"optimizer", "as { \"kind\": \"sgd\", \"learning_rate\": 0.05 }", "object", true,
       [](Reader& r, const Json& j, TrainOptions& t) { t.optimizer = read_optimizer(r, j); }, object_schema(optimizer_table())},
      {"schedule", "how the learning rate changes, as { \"kind\": \"cosine\", \"warmup_steps\": 100 }", "object", false,
       [](Reader& r, const Json& j, TrainOptions& t) {
         const std::size_t before = r.complaints.list.size();
         read_schedule(r, j, t.schedule);
         if (r.complaints.list.size() != before) t.schedule = {};  // the checks that follow run without a schedule
       },
       object_schema(schedule_table())},
      {"accumulate",
       "number of equal micro-batches that each batch is divided into, computed one after another",
       "integer",
       false,
       [](Reader& r, const Json& j, TrainOptions& t) { r.integer(j, t.accumulate, TrainingRanges::accumulate); },
       {},
       std::int64_t{1}},
      {"checkpoint", "when to save, as { \"every_epochs\": 1, \"keep\": 3 }", "object", false,
       [](Reader& r, const Json& j, TrainOptions& t) { read_checkpoint(r, j, t.checkpoint); }, object_schema(checkpoint_table())},
      {"evaluate_every_epochs", "evaluate on the test samples every this many epochs; default: only at the end", "integer", false,
       [](Reader& r, const Json& j, TrainOptions& t) { r.integer(j, t.evaluate_every_epochs, TrainingRanges::epochs); }},
      word_field("log", "what each step writes besides metrics.jsonl; tensorboard: an event file that TensorBoard shows",
                 &TrainOptions::log, {"none", "tensorboard"}),
      {"keep_best", "keep one more checkpoint, that of the best evaluation by test_loss or test_accuracy", "text", false,
       [](Reader& r, const Json& j, TrainOptions& t) {
         std::string word;
         if (r.text(j, word, kWatchedWords))
           t.watch.keep_best =
               static_cast<Watched>(std::find(kWatchedWords.begin(), kWatchedWords.end(), word) - kWatchedWords.begin());
       },
       schema_of_words(kWatchedWords)},
      {"stop_after_evaluations_without_gain",
       "end the run after so many evaluations in succession without a gain of what keep_best names, else what the schedule "
       "watches, "
       "else test_loss; default: never",
       "integer", false,
       [](Reader& r, const Json& j, TrainOptions& t) { r.integer(j, t.watch.stop_after, TrainingRanges::steps); }},
      {"clip_norm", "largest L2 norm of all gradients together; gradients above it are scaled down to it", "number", false,
       [](Reader& r, const Json& j, TrainOptions& t) { r.number(j, t.clip_norm, TrainingRanges::clip_norm); }},
      {"average", "decay of the weights' exponential moving average, as 0.999; evaluation and weights.safetensors use the averages",
       "number", false, [](Reader& r, const Json& j, TrainOptions& t) { r.number(j, t.average, TrainingRanges::average); }},
      {"initial", "weights to begin with, as { \"weights\": \"resnet18.safetensors\", \"new\": [\"fc.*\"] }", "object", false,
       [](Reader& r, const Json& j, TrainOptions& t) { read_initial(r, j, t.initial); }, initial_schema()},
      {"freeze", "names of parameters that stay as they are, as [\"conv1\", \"layer1.*\"] (`*`: any text)", "list", false,
       [](Reader& r, const Json& j, TrainOptions& t) { read_patterns(r, j, t.freeze); }, patterns_schema()},
      {"groups", "parameters with their own learning rate or decay, as [{ \"match\": \"*.bias\", \"weight_decay\": 0 }]",
       "list of object", false, [](Reader& r, const Json& j, TrainOptions& t) { read_groups(r, j, t.groups); }, groups_schema()}};
}

std::optional<TrainOptions> read_train(Reader& r, const Json& j, VersionKey version) {
  TrainOptions train;
  const Table<TrainOptions> table = train_table(version);
  if (!r.object(j, table, train)) return std::nullopt;
  if (train.batch > 0 && train.batch % train.accumulate != 0) {
    r.in("accumulate", [&] {
      r.complain(*j.find("accumulate"), "a batch of " + std::to_string(train.batch) + " cannot be divided into " +
                                            std::to_string(train.accumulate) + " equal micro-batches; make it a multiple of " +
                                            std::to_string(train.accumulate));
    });
    train.accumulate = 1;  // the checks that follow run without it
  }
  if (const Json* schedule = j.find("schedule");
      schedule != nullptr && train.schedule.minimum > train.optimizer.learning_rate && train.optimizer.learning_rate > 0)
    r.in("schedule", [&] {
      r.in("minimum", [&] {
        r.complain(*schedule->find("minimum"), fmt::format("expected at most the optimizer's learning_rate, {}, found {}",
                                                           train.optimizer.learning_rate, train.schedule.minimum));
      });
    });
  if (Reader::lacks(j, Reader::names_of(table), {"epochs", "max_steps"}))
    r.complain(j, "\"epochs\" or \"max_steps\" is missing (how long to train)");
  return train;
}

TrainingOptions planned_options(const TrainOptions& train) {
  return {{}, train.clip_norm, train.accumulate, train.average, train.storage(), train.freeze, train.groups};
}

TrainingOptions training_options(const TrainOptions& train, Index samples) {
  TrainingOptions out = planned_options(train);
  out.schedule = train.schedule;
  out.schedule.steps = whole_course(extent_of(train, samples)).end;
  return out;
}

Extent extent_of(const TrainOptions& train, Index samples) {
  return {samples, train.batch, train.epochs.value_or(0), train.max_steps.value_or(0)};
}

std::vector<WatchingKey> watching_keys(const TrainOptions& train) {
  std::vector<WatchingKey> out;
  const Watched watch = train.watch.watched(train.schedule);
  if (train.watch.keep_best) out.push_back({"/keep_best", watch});
  if (train.watch.stop_after > 0) out.push_back({"/stop_after_evaluations_without_gain", watch});
  if (train.schedule.kind == RateSchedule::Kind::plateau) out.push_back({"/schedule/kind", train.schedule.watch});
  return out;
}

std::vector<std::string> watch_notes(const TrainOptions& train, Index samples) {
  const Extent run = extent_of(train, samples);
  const Index steps = whole_course(run).end, first = train.evaluate_every_epochs * run.steps_per_epoch();
  if (watching_keys(train).empty() || first <= steps) return {};
  return {
      fmt::format("the run of {} steps ends before the first evaluation in training, after step {} "
                  "(train.evaluate_every_epochs): only the one at its end counts",
                  steps, first)};
}

std::vector<std::string> schedule_notes(const RateSchedule& schedule) {
  std::vector<std::string> notes;
  const std::string run = "the run has " + std::to_string(schedule.steps) + " steps";
  if (schedule.warmup_steps > schedule.steps)
    notes.push_back("the warm-up of " + std::to_string(schedule.warmup_steps) + " steps does not end: " + run);
  for (const Index step : schedule.milestones)
    if (step > schedule.steps) notes.push_back("milestone " + std::to_string(step) + " is not reached: " + run);
  return notes;
}

}  // namespace motley
