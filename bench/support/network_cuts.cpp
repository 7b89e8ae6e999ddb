// SPDX-License-Identifier: Apache-2.0
#include "bench/support/network_cuts.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/core_use.h"
#include "run/start.h"

namespace motley::bench {
namespace {

LayoutRules rules_of(const SmallNetwork& net, const std::vector<Parts>& parts) {
  LayoutRules rules;
  for (std::size_t d = 0; d < net.cut.size(); d++) rules.split.push_back({net.cut[d], "all", parts[d]});
  return rules;
}

LayoutRules rules_of(const SmallNetwork& net, CutBy by) {
  return rules_of(net, std::vector<Parts>(net.cut.size(), by));
}

Json read(const Plan& plan) {
  Complaints complaints;
  auto json = read_json("plan", plan.json(), complaints);
  complaints.raise();
  return *json;
}

// The fast rank's part of every cut dim.
std::vector<Index> cut_of(const Json& plan, const SmallNetwork& net) {
  std::vector<Index> out;
  for (const Dim& dim : net.cut)
    for (const Json& cut : std::get<Json::Array>(plan.find("cuts")->value))
      if (std::get<std::string>(cut.find("dim")->value) == dim.name) {
        out.push_back(std::get<std::int64_t>(cut.at("/parts/0")->value));
        break;
      }
  check(out.size() == net.cut.size(), "a plan lists every cut dim");
  return out;
}

// Quartile 1, 2 or 3; not a number where there is none.
double quartile(std::vector<double> values, std::size_t which) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, values.size() * which / 4)];
}

// Of every other value, from the first (0) or the second (1) on.
std::vector<double> every_other(const std::vector<double>& values, std::size_t first) {
  std::vector<double> out;
  for (std::size_t i = first; i < values.size(); i += 2) out.push_back(values[i]);
  return out;
}

}  // namespace

NetworkCuts::NetworkCuts(Runtime& rt, const Mesh& mesh, const SmallNetwork& net, const NetworkCutsOptions& options)
    : rt_(rt),
      mesh_(mesh),
      net_(net),
      options_(options),
      step_(training(net.loss, Sgd{.learning_rate = 0.001, .momentum = 0.9, .weight_decay = 1e-4})),
      own_(std::move(in_memory(1).front())) {}

Json NetworkCuts::row() {
  profile_ = measure(rt_, mesh_, step_, rules_of(net_, CutBy::profile), options_.profile,
                     {.budget_seconds = options_.budget_seconds, .when = Measure::always});
  const Plan chosen = balance(step_, mesh_, rules_of(net_, CutBy::profile), profile_);
  predicted_seconds_ = std::get<double>(read(chosen).at("/predicted/step_seconds")->value);
  chosen_ = add(chosen);
  even_ = add(balance(step_, mesh_, rules_of(net_, CutBy::even), profile_));
  proportional_ = add(balance(step_, mesh_, rules_of(net_, CutBy::proportional), profile_));
  for (int r = 0; r < 2; r++) {
    Candidate& candidate = alone_[static_cast<std::size_t>(r)];
    for (const Dim& dim : net_.cut) candidate.cut.push_back(r == 0 ? dim.size : 0);
    const Alone one = alone(step_, mesh_, r, profile_);
    alone_predicted_[static_cast<std::size_t>(r)] = one.predicted_seconds;
    start(candidate, one.plan, *own_, r);
  }
  search();
  const std::vector<Candidate*> list = finalists();
  compare(list, options_.rounds, 0.6);
  return row_of(list);
}

NetworkCuts::Candidate* NetworkCuts::add(const Plan& plan) {
  const Cut cut = cut_of(read(plan), net_);
  Candidate& candidate = candidates_[cut];
  if (candidate.cut.empty()) {
    candidate.cut = cut;
    start(candidate, plan, rt_.transport());
  }
  return &candidate;
}

NetworkCuts::Candidate* NetworkCuts::at(const Cut& cut) {
  if (const auto there = candidates_.find(cut); there != candidates_.end()) return &there->second;
  std::vector<Parts> parts;
  for (std::size_t d = 0; d < cut.size(); d++) parts.emplace_back(Sizes{{cut[d], net_.cut[d].size - cut[d]}});
  return add(balance(step_, mesh_, rules_of(net_, parts), profile_));
}

// Two steps: the first is the slower one.
void NetworkCuts::start(Candidate& candidate, const Plan& plan, Transport& transport, int only) {
  double mine = 0;
  if (only < 0 || rt_.rank() == only) {
    candidate.bound =
        std::make_unique<Bound>(plan, compile(plan, transport.rank(), {.hosts = transport.hosts()}), rt_.backend(mesh_), transport);
    candidate.bound->run();
    mine = candidate.bound->run().seconds;
  }
  candidate.estimate = slowest(rt_.transport(), {mine}).front();
}

// All in turn, again and again until the round is long enough: of two steps in a row the second counts, as in training, where the
// step before was of the same plan. A round's value is the median of its steps'. False: it was disturbed.
bool NetworkCuts::round(std::vector<Candidate*> order, double least_seconds) {
  std::shuffle(order.begin(), order.end(), random_);
  double once = 0;
  for (const Candidate* c : order) once += 2 * c->estimate;
  const auto times = static_cast<std::size_t>(std::clamp(std::ceil(least_seconds / once), 1.0, 50.0));
  std::vector<double> mine;
  const CoreUse use(allowed_cores());
  for (std::size_t i = 0; i < times; i++)
    for (Candidate* c : order) {
      agree(rt_.transport(), 0);
      if (c->bound != nullptr) c->bound->run();
      agree(rt_.transport(), 0);
      mine.push_back(c->bound == nullptr ? 0 : c->bound->run().seconds);
    }
  const auto others = use.others_share();
  if (!others) throw UserError("bench/balance --network needs /proc/stat to see whether other processes had the cores");
  mine.push_back(*others);
  const std::vector<double> both = slowest(rt_.transport(), mine);
  if (both.back() > kDisturbed) return false;
  for (std::size_t k = 0; k < order.size(); k++) {
    std::vector<double> steps;
    for (std::size_t i = 0; i < times; i++) steps.push_back(both[i * order.size() + k]);
    order[k]->seconds.push_back(median(steps));
  }
  return true;
}

// Until there are that many undisturbed rounds, or too many were dropped.
void NetworkCuts::compare(const std::vector<Candidate*>& list, std::size_t rounds, double round_seconds) {
  for (Candidate* c : list) c->seconds.clear();
  const double most = kMostDropped / (1 - kMostDropped) * static_cast<double>(rounds);
  for (std::size_t kept = 0, dropped = 0; kept < rounds && static_cast<double>(dropped) <= most;) {
    const bool undisturbed = round(list, round_seconds);
    (undisturbed ? kept : dropped)++;
    (undisturbed ? kept_ : dropped_)++;
  }
}

// The best of these.
NetworkCuts::Cut NetworkCuts::explore(const std::set<Cut>& cuts) {
  std::vector<Candidate*> list;
  for (const Cut& cut : cuts) list.push_back(at(cut));
  compare(list, 2, 0.4);
  const Candidate* best = list.front();
  for (const Candidate* c : list) {
    explored_[c->cut] = c->seconds.empty() ? c->estimate : *std::min_element(c->seconds.begin(), c->seconds.end());
    if (explored_[c->cut] < explored_[best->cut]) best = c;
  }
  return best->cut;
}

// All cuts along one dim through a cut: each of a batch's, else those in steps of 4 or 8 filters.
std::set<NetworkCuts::Cut> NetworkCuts::along(std::size_t dim, Cut cut) const {
  const Index size = net_.cut[dim].size, step = size <= 32 ? 1 : size <= 128 ? 4 : 8;
  std::set<Cut> out{cut};
  for (Index part = 0; part < size + step; part += step) {
    cut[dim] = std::min(part, size);
    out.insert(cut);
  }
  return out;
}

// What the chosen cut has a kernel's granule away along one dim.
std::set<NetworkCuts::Cut> NetworkCuts::neighbours() const {
  std::set<Cut> out;
  for (std::size_t d = 0; d < net_.cut.size(); d++)
    for (const Index by : {-16, -8, -4, 4, 8, 16}) {
      Cut cut = chosen_->cut;
      cut[d] += by;
      if (cut[d] >= 0 && cut[d] <= net_.cut[d].size) out.insert(cut);
    }
  return out;
}

// One dim: all of its cuts. Two: a coarse grid of both, then along one after the other from the best, until that changes nothing.
void NetworkCuts::search() {
  std::set<Cut> first = neighbours();
  for (const Candidate* c : {chosen_, even_, proportional_}) first.insert(c->cut);
  if (net_.cut.size() == 1) {
    first.merge(along(0, chosen_->cut));
    explore(first);
    return;
  }
  const auto part = [&](std::size_t dim, Index eighths) { return (net_.cut[dim].size * eighths / 8 + 2) / 4 * 4; };
  for (const Index a : {4, 5, 6, 7, 8})
    for (const Index b : {4, 6, 8}) first.insert({part(0, a), part(1, b)});
  Cut best = explore(first);
  for (std::size_t turn = 0, unchanged = 0; turn < 4 && unchanged < 2; turn++) {
    const Cut better = explore(along(turn % 2, best));
    unchanged = better == best ? unchanged + 1 : 1;
    best = better;
  }
}

// What is compared with, and of the others up to eight that the search found within a tenth of the best.
std::vector<NetworkCuts::Candidate*> NetworkCuts::finalists() {
  std::vector<std::pair<double, Cut>> found;
  for (const auto& [cut, seconds] : explored_) found.emplace_back(seconds, cut);
  std::sort(found.begin(), found.end());
  std::vector<Candidate*> list{chosen_};
  const auto enter = [&](Candidate* c) {
    if (std::find(list.begin(), list.end(), c) == list.end()) list.push_back(c);
  };
  for (Candidate* c : {even_, proportional_, &alone_[0], &alone_[1]}) enter(c);
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 8) && found[i].first <= 1.1 * found.front().first; i++)
    enter(at(found[i].second));
  return list;
}

Json NetworkCuts::row_of(const std::vector<Candidate*>& list) const {
  const bool enough = chosen_->seconds.size() >= 2 * kLeastRounds;
  const auto naming = [](const Candidate* c) { return quartile(every_other(c->seconds, 0), 2); };
  const auto timing = [&](const Candidate* c) { return enough ? quartile(every_other(c->seconds, 1), 2) : NAN; };
  const Candidate* best = chosen_;
  for (const Candidate* c : list)
    if (naming(c) < naming(best)) best = c;
  std::vector<double> ratios;
  for (std::size_t i = 1; enough && i < chosen_->seconds.size(); i += 2) ratios.push_back(chosen_->seconds[i] / best->seconds[i]);
  const auto parts = [&](const Candidate* c) {
    Json::Array dims;
    for (std::size_t d = 0; d < c->cut.size(); d++)
      dims.emplace_back(Json::Array{Json(c->cut[d]), Json(net_.cut[d].size - c->cut[d])});
    return Json(dims);
  };
  Json::Array dims;
  for (const Dim& dim : net_.cut) dims.emplace_back(dim.name);
  const double best_seconds = timing(best), chosen_seconds = timing(chosen_);
  Json row{Json::Object{}};
  row.set("dims", dims).set("chosen_parts", parts(chosen_)).set("best_parts", enough ? parts(best) : Json(nullptr));
  row.set("chosen_seconds", chosen_seconds)
      .set("best_seconds", best_seconds)
      .set("chosen_over_best", chosen_seconds / best_seconds);
  row.set("fast_alone_over_best", timing(&alone_[0]) / best_seconds).set("even_over_best", timing(even_) / best_seconds);
  row.set("proportional_over_best", timing(proportional_) / best_seconds);
  row.set("predicted_seconds", predicted_seconds_).set("predicted_over_measured", predicted_seconds_ / chosen_seconds);
  const Speeds speeds = speeds_of(timing(&alone_[0]) / alone_predicted_[0], timing(&alone_[1]) / alone_predicted_[1]);
  row.set("predicted_over_measured_same_speed", predicted_seconds_ / chosen_seconds * speeds.both).set("speed_moved", speeds.moved);
  row.set("spread", quartile(ratios, 3) - quartile(ratios, 1));
  row.set("rounds", static_cast<Index>(chosen_->seconds.size())).set("rounds_dropped", static_cast<Index>(dropped_));
  row.set("dropped_share", static_cast<double>(dropped_) / static_cast<double>(kept_ + dropped_));
  row.set("cuts_tried", static_cast<Index>(candidates_.size()));
  return row;
}

}  // namespace motley::bench
