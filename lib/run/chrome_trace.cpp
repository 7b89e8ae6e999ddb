// SPDX-License-Identifier: Apache-2.0
#include "run/chrome_trace.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/json.h"

namespace motley {

namespace {

constexpr int kSteps = 0, kDevice = 1, kBeside = 2;  // tracks; kBeside and on: simulated steps that last longer than measured ones

std::string json_text(const std::string& text) {
  return to_text(Json(text));
}

class Writer {
 public:
  explicit Writer(const RunTrace& trace) : trace_(trace) {
    start_ = HUGE_VAL;
    for (const RankTrace& rank : trace.ranks)
      for (const TraceSpan& s : rank.measured) start_ = std::min(start_, s.begin);
  }

  std::string text() {
    Json other;
    Json notes{Json::Array{}};
    for (const std::string& note : trace_.notes) notes.push(note);
    other.set("notes", std::move(notes));
    out_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + to_text(other) + ",\"traceEvents\":[\n";
    for (std::size_t r = 0; r < trace_.ranks.size(); r++) {
      name_process(r, Side::measured);
      if (!trace_.ranks[r].simulated.empty()) name_process(r, Side::simulated);
    }
    for (std::size_t r = 0; r < trace_.ranks.size(); r++) {
      words_ = words_of(trace_.ranks[r]);
      add_measured(r);
      if (!trace_.ranks[r].simulated.empty()) add_simulated(r);
    }
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  enum class Side : int { measured, simulated };
  struct Words {  // of an item, as JSON: the part that is the same in every step
    std::string name, category, args;
  };

  static int pid(std::size_t rank, Side side) { return 2 * static_cast<int>(rank) + static_cast<int>(side); }

  static std::vector<Words> words_of(const RankTrace& rank) {
    std::vector<Words> out;
    for (const TraceItem& item : rank.items) {
      std::string args;
      Index bytes = 0;
      for (const TracePeer& p : item.peers) {
        args += fmt::format("{}{{\"peer\":{},\"bytes\":{}}}", args.empty() ? "" : ",", p.rank, p.bytes);
        bytes += p.bytes;
      }
      if (!args.empty()) args = fmt::format(",\"peers\":[{}],\"bytes\":{}", args, bytes);
      out.push_back({json_text(item.name), json_text(item.group), args});
    }
    return out;
  }

  void line(const std::string& event) {
    if (lines_++ > 0) out_ += ",\n";
    out_ += event;
  }

  void name_process(std::size_t r, Side side) {
    const int p = pid(r, side);
    const char* word = side == Side::measured ? "measured" : "simulated";
    line(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":"rank {} {}"}}}})", p, r, word));
    line(fmt::format(R"({{"ph":"M","name":"process_labels","pid":{},"tid":0,"args":{{"labels":{}}}}})", p,
                     json_text(trace_.ranks[r].device)));
    line(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{},"tid":0,"args":{{"sort_index":{}}}}})", p, p));
    name_track(p, kSteps, "steps");
    if (side == Side::measured && trace_.ranks[r].own_clock) name_track(p, kDevice, "device");
  }

  void name_track(int p, int track, const std::string& name) {
    line(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", p, track, name));
  }

  // Nanoseconds from the start: ends are rounded, not durations, so that neighbours neither overlap nor leave gaps.
  long long ns(double seconds) const { return std::llround(1e9 * (seconds - start_)); }
  static std::string us(long long ns) {
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
  }

  void whole(int p, int track, const Words& words, Index step, double from, double to) {
    const long long begin = ns(from), end = std::max(begin, ns(to));
    line(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{},"args":{{"step":{}{}}}}})", p, track,
                     us(begin), us(end - begin), words.name, words.category, step, words.args));
  }

  void transfer(int p, const RankTrace& rank, std::size_t item, Index step, double from, double to) {
    const std::string id = fmt::format("{}.{}.{}", p, step, rank.items[item].exchange);
    for (const auto& [phase, at] : {std::pair("b", from), std::pair("e", to)})
      line(fmt::format(R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"id":"{}","name":{},"cat":"transfer","args":{{"step":{}{}}}}})",
                       phase, p, kSteps, us(ns(at)), id, words_[item].name, step, words_[item].args));
  }

  // One training step of a rank: an event for the step, with those of the Program inside it; reading the inputs before it, the
  // exchange of figures after it.
  template <class At>
  void add_step(std::size_t r, Side side, int track, Index step, TraceSpan all, At&& at) {
    const RankTrace& rank = trace_.ranks[r];
    const int p = pid(r, side);
    const bool apart = side == Side::measured && rank.own_clock;
    whole(p, track, {fmt::format("\"step {}\"", step), "\"step\"", ""}, step, all.begin, all.end);
    std::map<int, double> posted;
    for (std::size_t i = 0; i < rank.items.size(); i++) {
      const TraceItem& item = rank.items[i];
      const TraceSpan span = at(i);
      whole(p, apart && item.kind == TraceItem::Kind::kernel ? kDevice : track, words_[i], step, span.begin, span.end);
      if (!item.message) continue;
      if (item.kind == TraceItem::Kind::post)
        posted[item.exchange] = span.begin;
      else
        transfer(p, rank, i, step, posted.at(item.exchange), span.end);
    }
  }

  void add_measured(std::size_t r) {
    const RankTrace& rank = trace_.ranks[r];
    for (std::size_t k = 0; k < trace_.steps.size(); k++)
      add_step(r, Side::measured, kSteps, trace_.steps[k], rank.step(k), [&](std::size_t i) { return rank.at(k, i); });
  }

  void add_simulated(std::size_t r) {
    const RankTrace& rank = trace_.ranks[r];
    std::vector<double> free;  // per track: when its last step ended
    for (std::size_t k = 0; k < trace_.steps.size(); k++) {
      double begin = HUGE_VAL;
      for (const RankTrace& each : trace_.ranks) begin = std::min(begin, each.step(k).begin);
      const double end = begin + rank.simulated.back().end;
      const auto at = std::find_if(free.begin(), free.end(), [&](double f) { return f <= begin; });
      const auto lane = static_cast<int>(at - free.begin());
      if (at == free.end()) {
        if (lane > 0) name_track(pid(r, Side::simulated), kBeside + lane - 1, "steps that last longer than measured");
        free.push_back(end);
      } else {
        *at = end;
      }
      const TraceSpan step = rank.simulated_step(), timed{begin + step.begin, begin + step.end};
      add_step(r, Side::simulated, lane == 0 ? kSteps : kBeside + lane - 1, trace_.steps[k], timed, [&](std::size_t i) {
        return TraceSpan{begin + rank.simulated[i].begin, begin + rank.simulated[i].end};
      });
    }
  }

  const RunTrace& trace_;
  double start_ = 0;
  std::vector<Words> words_{};  // of the current rank
  std::string out_{};
  std::size_t lines_ = 0;
};

}  // namespace

std::string chrome_trace(const RunTrace& trace) {
  return Writer(trace).text();
}

}  // namespace motley
