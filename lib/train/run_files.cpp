// SPDX-License-Identifier: Apache-2.0
#include "train/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/at.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json_fields.h"
#include "base/version.h"
#include "weights/checkpoint.h"
#include "weights/memory.h"

namespace motley {

namespace {

constexpr double kMostFigure = 1e300;

const Table<RankFigures>& rank_figure_fields() {
  static const Table<RankFigures> table{
      number_or_null("predicted_step_seconds", "by the plan", &RankFigures::predicted_step_seconds, 0, kMostFigure),
      number_or_null("measured_step_seconds", "median after warm-up", &RankFigures::measured_step_seconds, 0, kMostFigure),
      number_or_null("busy_seconds", "computing, per step", &RankFigures::busy_seconds, 0, kMostFigure),
      number_or_null("waiting_seconds", "for other ranks, per step", &RankFigures::waiting_seconds, 0, kMostFigure),
      number_or_null("feed_seconds", "reading the inputs, per step", &RankFigures::feed_seconds, 0, kMostFigure),
      number_or_null("disturbed", "share of the time that other processes had its cores", &RankFigures::disturbed, 0, kMostFigure),
      integer_or_null("bytes_predicted", "received per step, by the plan", &RankFigures::bytes_predicted),
      integer_or_null("bytes_counted", "received per step", &RankFigures::bytes_counted),
      integer_or_null("memory_bytes", "used, kernel workspaces included", &RankFigures::memory_bytes),
      {"machine", "what it runs on", "object or null", false, [](Reader& r, const Json& j, RankFigures& out) {
         if (!std::holds_alternative<std::nullptr_t>(j.value)) r.object(j, rank_facts_table(), out.machine);
       }}};
  return table;
}

Field<TrainSummary> text_or_null(const char* name, const char* doc, std::string TrainSummary::*member) {
  return {name, doc, "text or null", false, [member](Reader& r, const Json& j, TrainSummary& out) {
            if (!std::holds_alternative<std::nullptr_t>(j.value)) r.text(j, out.*member);
          }};
}

const Table<BestFigures>& best_fields() {
  static const Table<BestFigures> table{
      word_field("watch", "test_loss or test_accuracy", &BestFigures::watch, kWatchedWords, true),
      {"value", "of the evaluation", "number", true,
       [](Reader& r, const Json& j, BestFigures& out) { r.number(j, out.value, -kMostFigure, kMostFigure); }},
      count_field("step", "after which it was", &BestFigures::step),
      count_field("evaluations_without_gain", "since then", &BestFigures::without_gain),
      {"checkpoint", "in the run directory", "text or null", true, [](Reader& r, const Json& j, BestFigures& out) {
         std::string name;
         if (!std::holds_alternative<std::nullptr_t>(j.value) && r.text(j, name)) out.kept = step_of(name);
       }}};
  return table;
}

const Table<TrainSummary>& run_fields() {
  static const Table<TrainSummary> table{
      version_field<TrainSummary>(VersionKey::required),
      {"status", "done, stopped or failed", "text", true,
       [](Reader& r, const Json& j, TrainSummary& out) {
         r.text(j, out.status, {"done", "stopped", "failed"});
       }},
      {"code", "the exit code of a failed run", "integer", false,
       [](Reader& r, const Json& j, TrainSummary& out) {
         Index code = 0;
         if (r.integer(j, code, 0, 255)) out.code = static_cast<int>(code);
       }},
      {"rank", "that failed", "integer or null", false,
       [](Reader& r, const Json& j, TrainSummary& out) {
         Index rank = 0;
         if (!std::holds_alternative<std::nullptr_t>(j.value) && r.integer(j, rank, 0, INT32_MAX))
           out.rank = static_cast<int>(rank);
       }},
      text_field("reason", "of the failure", &TrainSummary::reason, false),
      text_field("motley", "its version", &TrainSummary::motley, false),
      text_or_null("started", "UTC time of this session's first step", &TrainSummary::started),
      text_or_null("ended", "UTC time when this file was written", &TrainSummary::ended),
      {"steps", "trained", "integer", true, [](Reader& r, const Json& j, TrainSummary& out) { r.integer(j, out.steps, 0); }},
      {"checkpoints_failed", "that could not be written", "integer", false,
       [](Reader& r, const Json& j, TrainSummary& out) { r.integer(j, out.checkpoints_failed, 0); }},
      {"steps_before", "of earlier sessions", "integer", false,
       [](Reader& r, const Json& j, TrainSummary& out) { r.integer(j, out.steps_before, 0); }},
      number_or_null("seconds", "from the start of this session's first step", &TrainSummary::seconds, 0, kMostFigure),
      number_or_null("train_loss", "of the last step", &TrainSummary::train_loss, -kMostFigure, kMostFigure),
      number_or_null("test_accuracy", "share of the test samples", &TrainSummary::test_accuracy, 0, kMostFigure),
      number_or_null("test_loss", "mean over the test samples", &TrainSummary::test_loss, 0, kMostFigure),
      number_or_null("test_batch_seconds", "of the evaluation, median over batches, slowest rank",
                     &TrainSummary::test_batch_seconds, 0, kMostFigure, false),
      number_or_null("predicted_test_batch_seconds", "by its plan", &TrainSummary::predicted_test_batch_seconds, 0, kMostFigure,
                     false),
      number_or_null("predicted_step_seconds", "by the plan", &TrainSummary::predicted_step_seconds, 0, kMostFigure),
      number_or_null("measured_step_seconds", "median after warm-up, slowest rank", &TrainSummary::measured_step_seconds, 0,
                     kMostFigure),
      integer_or_null("bytes_predicted", "per step, all ranks", &TrainSummary::bytes_predicted),
      integer_or_null("bytes_counted", "per step, all ranks", &TrainSummary::bytes_counted),
      {"disturbed", "of the most disturbed rank", "number or null", false,
       [](Reader&, const Json&, TrainSummary&) {}},  // computed from the ranks' figures
      list_field("ranks", "the same figures per rank", &TrainSummary::ranks, rank_figure_fields()),
      {"best", "evaluation of those that are watched", "object or null", false,
       [](Reader& r, const Json& j, TrainSummary& out) {
         if (!std::holds_alternative<std::nullptr_t>(j.value)) r.object(j, best_fields(), out.best.emplace());
       }},
      boolean_field("stopped_early", "by evaluations without a gain", &TrainSummary::stopped_early),
      {"classes", "their names, by number", "list or null", false,
       [](Reader& r, const Json& j, TrainSummary& out) {
         if (!std::holds_alternative<std::nullptr_t>(j.value))
           r.list(j, [&](const Json& one, std::size_t) { r.text(one, out.classes.emplace_back()); });
       }},
      texts_field("copies_differ", "tensors whose copies differ", &TrainSummary::copies_differ)};
  return table;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

EventFile::Scalars test_scalars(const StepFacts& facts) {
  EventFile::Scalars out;
  if (facts.test_accuracy) out.emplace_back("test_accuracy", *facts.test_accuracy);
  if (facts.test_loss) out.emplace_back("test_loss", *facts.test_loss);
  return out;
}

// Nothing: there is no number.
std::optional<double> number_of(const Json* json) {
  if (json == nullptr) return {};
  if (const auto* whole = std::get_if<std::int64_t>(&json->value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&json->value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

}  // namespace

std::optional<MetricsLine> last_line(const FileIn& metrics, std::optional<Index> step) {
  if (metrics.in.kind(metrics.name) != OpenDirectory::Kind::file) return {};
  const std::string all = InputFile(metrics).text(), name = metrics.path().string();
  for (std::size_t end = all.rfind('\n'), before = 0; end != std::string::npos; end = before) {
    before = end == 0 ? std::string::npos : all.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    Complaints complaints;
    const auto json = read_json(name, all.substr(begin, end - begin), complaints, kByMotley);
    const Json* its = json ? json->find("step") : nullptr;
    const auto* number = its == nullptr ? nullptr : std::get_if<std::int64_t>(&its->value);
    if (number == nullptr || *number > step.value_or(*number)) continue;
    return MetricsLine{*number, static_cast<Index>(end + 1), json->find("test_loss") != nullptr, number_of(json->find("loss"))};
  }
  return {};
}

MetricsFile::MetricsFile(const FileIn& file, Index keep_steps, StepLog log) : file_(file) {
  const std::optional<MetricsLine> kept = keep_steps > 0 ? last_line(file_, keep_steps) : std::nullopt;
  if (kept) {
    last_ = kept->step;
    has_test_ = kept->has_test;
    loss_ = kept->loss;
  }
  file_.in.require_here();
  if (const std::string wrong = file_.in.why_not(file_.name, OpenDirectory::Kind::file); !wrong.empty())
    throw UserError(file_.path().string() + " " + wrong, Exit::io);
  fd_ = openat(file_.in.fd(), file_.name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd_ < 0) fail("open");
  if (ftruncate(fd_, kept ? kept->end : 0) != 0) {
    const int why = errno;
    ::close(std::exchange(fd_, -1));
    errno = why;
    fail("ftruncate");
  }
  if (log == StepLog::tensorboard) events_.emplace(file.in / kEventsFile, keep_steps);
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::fail(const char* call) const {
  throw UserError(file_.path().string() + ": " + call + ": " + std::strerror(errno), Exit::io);
}

void MetricsFile::add(const StepReport& step, Index epoch, const StepFacts& facts) {
  Json line;
  line.set("step", step.step).set("epoch", epoch).set("loss", step.loss).set("seconds", step.measured_seconds);
  line.set("samples_per_second", facts.samples_per_second).set("learning_rate", step.learning_rate);
  if (step.gradient_norm) line.set("gradient_norm", *step.gradient_norm);
  if (facts.test_loss) line.set("test_accuracy", json_or_null(facts.test_accuracy)).set("test_loss", json_or_null(facts.test_loss));
  append(to_text(line) + "\n");
  last_ = step.step;
  has_test_ = facts.test_loss.has_value();
  loss_ = step.loss;
  if (!events_) return;
  EventFile::Scalars scalars{{"loss", step.loss},
                             {"learning_rate", step.learning_rate},
                             {"step_seconds", step.measured_seconds},
                             {"samples_per_second", facts.samples_per_second}};
  if (step.gradient_norm) scalars.emplace_back("gradient_norm", *step.gradient_norm);
  const EventFile::Scalars test = test_scalars(facts);
  scalars.insert(scalars.end(), test.begin(), test.end());
  events_->add(step.step, scalars);
}

void MetricsFile::add_test(const StepFacts& facts) {
  Json more;
  more.set("test_accuracy", json_or_null(facts.test_accuracy)).set("test_loss", json_or_null(facts.test_loss));
  const std::string end = "}\n";
  const off_t size = lseek(fd_, 0, SEEK_END);
  if (size < static_cast<off_t>(end.size())) return;  // someone has emptied it
  // Over the end of the line, by one write: a process that is killed leaves a whole line.
  const std::string text = ", " + to_text(more).substr(1) + "\n";
  const ssize_t n = pwrite(fd_, text.data(), text.size(), size - static_cast<off_t>(end.size()));
  if (n != static_cast<ssize_t>(text.size())) {
    const int why = n < 0 ? errno : ENOSPC;
    if (n > 0 && (ftruncate(fd_, size) != 0 || pwrite(fd_, end.data(), end.size(), size - static_cast<off_t>(end.size())) < 0))
      fail("ftruncate");
    errno = why;
    fail("write");
  }
  has_test_ = true;
  if (events_) events_->add(last_, test_scalars(facts));
}

// All of it or, after an error, nothing.
void MetricsFile::append(const std::string& text) {
  constexpr double kSeenFor = 0.5;
  if (const double now = seconds_now(); now - seen_ > kSeenFor) {
    file_.in.require_here();
    if (struct stat own{}; fstat(fd_, &own) == 0 && own.st_nlink == 0)
      throw UserError(file_.path().string() + " was removed while it was written", Exit::io);
    seen_ = now;
  }
  const off_t start = lseek(fd_, 0, SEEK_END);
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = write(fd_, text.data() + at, text.size() - at);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      const int why = n == 0 ? ENOSPC : errno;
      if (start >= 0 && at > 0 && ftruncate(fd_, start) != 0) fail("ftruncate");
      errno = why;
      fail("write");
    }
  }
}

void MetricsFile::close() {
  const int fd = fd_;
  fd_ = -1;
  const bool synced = fsync(fd) == 0;
  const int why = errno;
  if (::close(fd) != 0) fail("close");
  errno = why;
  if (!synced) fail("fsync");
}

std::optional<double> TrainSummary::disturbed() const {
  std::optional<double> most;
  for (const RankFigures& r : ranks)
    if (r.disturbed) most = std::max(most.value_or(0), *r.disturbed);
  return most;
}

void write_run_json(const OpenDirectory& directory, const TrainSummary& s) {
  Json out;
  out.set("version", 1).set("status", s.status);
  if (s.status == "failed") out.set("code", s.code).set("rank", s.rank < 0 ? Json(nullptr) : Json(s.rank)).set("reason", s.reason);
  out.set("motley", kMotleyVersion).set("started", text_or_null(s.started)).set("ended", utc_now());
  out.set("steps", s.steps)
      .set("checkpoints_failed", s.checkpoints_failed)
      .set("steps_before", s.steps_before)
      .set("seconds", json_or_null(s.seconds))
      .set("train_loss", json_or_null(s.train_loss))
      .set("test_accuracy", json_or_null(s.test_accuracy));
  out.set("test_loss", json_or_null(s.test_loss)).set("test_batch_seconds", json_or_null(s.test_batch_seconds));
  out.set("predicted_test_batch_seconds", json_or_null(s.predicted_test_batch_seconds));
  out.set("predicted_step_seconds", json_or_null(s.predicted_step_seconds));
  out.set("measured_step_seconds", json_or_null(s.measured_step_seconds));
  out.set("bytes_predicted", json_or_null(s.bytes_predicted)).set("bytes_counted", json_or_null(s.bytes_counted));
  out.set("disturbed", json_or_null(s.disturbed()));
  Json ranks{Json::Array{}}, differ{Json::Array{}}, classes{Json::Array{}};
  for (const RankFigures& r : s.ranks) {
    Json one;
    one.set("predicted_step_seconds", json_or_null(r.predicted_step_seconds))
        .set("measured_step_seconds", json_or_null(r.measured_step_seconds));
    one.set("busy_seconds", json_or_null(r.busy_seconds)).set("waiting_seconds", json_or_null(r.waiting_seconds));
    one.set("feed_seconds", json_or_null(r.feed_seconds)).set("disturbed", json_or_null(r.disturbed));
    one.set("bytes_predicted", json_or_null(r.bytes_predicted))
        .set("bytes_counted", json_or_null(r.bytes_counted))
        .set("memory_bytes", json_or_null(r.memory_bytes))
        .set("machine", r.machine == RankFacts{} ? Json(nullptr) : to_json(r.machine));
    ranks.push(std::move(one));
  }
  for (const std::string& name : s.copies_differ) differ.push(name);
  for (const std::string& name : s.classes) classes.push(name);
  out.set("classes", s.classes.empty() ? Json(nullptr) : std::move(classes));
  Json best(nullptr);
  if (const auto& b = s.best) {
    best = Json(Json::Object{});
    best.set("watch", at(kWatchedNames, b->watch)).set("value", b->value).set("step", b->step);
    best.set("evaluations_without_gain", b->without_gain);
    best.set("checkpoint", b->kept ? Json(checkpoint_name(*b->kept)) : Json(nullptr));
  }
  out.set("best", std::move(best)).set("stopped_early", s.stopped_early);
  out.set("ranks", std::move(ranks)).set("copies_differ", std::move(differ));
  write_text(directory / "run.json", to_text(out, 2) + "\n");
}

TrainSummary load_run_json(const std::filesystem::path& file) {
  return load_json(
      file,
      [](Reader& r, const Json& j) {
        std::optional<TrainSummary> out(std::in_place);
        r.object(j, run_fields(), *out);
        return out;
      },
      kByMotley);
}

}  // namespace motley
