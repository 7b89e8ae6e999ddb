// SPDX-License-Identifier: Apache-2.0
// The improving sweep: complete plans, tried one after the other. Decisions that are the same from one plan to the next are kept: a
// changed pick makes the sweep decide again only what follows from it.
#include <algorithm>
#include <set>
#include <utility>

#include "base/at.h"
#include "plan/kernel_of.h"
#include "plan/sweep.h"

namespace motley {

namespace {

constexpr std::size_t kKnown = 12;  // decisions kept per tensor
constexpr double kEnough = 1e-9;    // of the cost: a smaller difference is rounding

// Whether the pass reads or writes the parameter, its gradient, or what else is cut as it is.
bool accesses(const Passes& passes, const Pass& pass, int parameter) {
  const auto is = [&](const PassOperand& o) { return o.tensor == parameter || at(passes.tensors, o.tensor).of == parameter; };
  return is(pass.writes) || std::any_of(pass.reads.begin(), pass.reads.end(), is);
}

}  // namespace

std::shared_ptr<const Sweeper::Decided> Sweeper::known(int t, const Boxes& needs, const std::map<int, Pick>& picks) const {
  const auto& writers = at(writers_, t);
  const StepTensor& tensor = at(passes_.tensors, t);
  const int owned = tensor.role == TensorRole::parameter ? t : tensor.role == TensorRole::parameter_gradient ? tensor.of : -1;
  for (const auto& d : at(known_, t)) {
    bool same = d->needs == needs && (d->passes.size() == writers.size() || d->plan.readers.empty());
    for (std::size_t k = 0; same && k < d->picks.size(); k++) {
      auto given = picks.find(writers[k]);
      same = given != picks.end() && given->second == d->picks[k];
    }
    if (same && relaid_) same = d->plan.layout.cuts == layouts_.of(t).cuts && (owned < 0 || d->plan.home == home(owned));
    if (same) return d;
  }
  return nullptr;
}

// One rank reads the step's outputs.
Sweeper::Boxes Sweeper::outside_needs(int t) const {
  Boxes out(static_cast<std::size_t>(mesh_.ranks()));
  const auto& outputs = passes_.outputs;
  if (std::find(outputs.begin(), outputs.end(), t) != outputs.end())
    at(out, layouts_.busy().front()) = {whole(at(passes_.tensors, t).shape)};
  return out;
}

Sweeper::Boxes Sweeper::needs_of(int t, const Trial& trial) const {
  Boxes out = outside_needs(t);
  for (const Reader& reader : at(readers_, t)) {
    const Decided& by = *at(trial.tensors, reader.tensor);
    if (by.passes.empty()) continue;
    const std::vector<Work>& work = by.passes[reader.writer].work;
    for (std::size_t r = 0; r < work.size(); r++)
      if (work[r].any) want(out[r], operand_box(*reader.operand, work[r].box));
  }
  return out;
}

std::shared_ptr<const Sweeper::Decided> Sweeper::decided(int t, const std::vector<Boxes>& needs,
                                                         const std::map<int, Pick>& picks) const {
  const auto here = static_cast<std::size_t>(t);
  std::shared_ptr<const Decided> found = known(t, needs[here], picks);
  if (found != nullptr) return found;
  found = std::make_shared<const Decided>(decide(t, needs, picks));
  auto& all = known_[here];
  if (all.size() == kKnown) all.erase(all.begin());
  all.push_back(found);
  return found;
}

double Sweeper::cost_of(const Trial& trial) const {
  double sum = 0;
  for (int t : order_) sum += at(trial.tensors, t)->cost;
  return sum;
}

Sweeper::Trial Sweeper::attempt(const std::map<int, Pick>& picks) const {
  Trial out;
  out.tensors.resize(passes_.tensors.size());
  std::vector<Boxes> needs;
  for (std::size_t t = 0; t < passes_.tensors.size(); t++) needs.push_back(outside_needs(static_cast<int>(t)));
  for (int t : order_) {
    const auto here = static_cast<std::size_t>(t);
    out.tensors[here] = decided(t, needs, picks);
    for (std::size_t k = 0; k < out.tensors[here]->passes.size(); k++)
      for (std::size_t r = 0; r < needs[here].size(); r++)
        if (const Work& w = out.tensors[here]->passes[k].work[r]; w.any)
          for (const PassOperand& o : at(passes_.passes, writers_[here][k]).reads)
            want(at(needs, o.tensor)[r], operand_box(o, w.box));
  }
  out.cost = cost_of(out);
  return out;
}

bool Sweeper::change(Trial& trial, const std::map<int, Pick>& picks, const std::vector<int>& passes, Replaced& before) const {
  std::set<int> differs;
  std::set<std::size_t> open;  // positions in order_
  for (int p : passes) {
    const int written = at(passes_.passes, p).writes.tensor;
    differs.insert(written);
    open.insert(at(position_, written));
  }
  if (needs_.empty()) needs_.resize(passes_.tensors.size());
  while (!open.empty()) {
    const int t = order_[*open.begin()];
    open.erase(open.begin());
    const auto here = static_cast<std::size_t>(t);
    Boxes needs = needs_of(t, trial);
    if (!differs.contains(t) && needs == trial.tensors[here]->needs) continue;
    const bool all_given = std::all_of(writers_[here].begin(), writers_[here].end(), [&](int w) { return picks.contains(w); });
    const bool is_read = std::any_of(needs.begin(), needs.end(), [](const std::vector<Box>& boxes) { return !boxes.empty(); });
    if (is_read && !all_given) return false;
    needs_[here] = std::move(needs);
    before.emplace_back(t, std::exchange(trial.tensors[here], decided(t, needs_, picks)));
    needs_[here].clear();
    for (int w : writers_[here])
      for (const PassOperand& o : at(passes_.passes, w).reads) open.insert(at(position_, o.tensor));
  }
  return true;
}

Sweep Sweeper::whole_of(const Trial& trial) const {
  Sweep out;
  out.passes.resize(passes_.passes.size());
  out.cost = trial.cost;
  for (std::size_t t = 0; t < trial.tensors.size(); t++) {
    const Decided& d = *trial.tensors[t];
    TensorPlan& plan = out.tensors.emplace_back(d.plan);
    if (writers_[t].size() == d.passes.size()) add_messages(static_cast<int>(t), d.passes, plan);
    for (std::size_t k = 0; k < d.passes.size(); k++) at(out.passes, writers_[t][k]) = d.passes[k];
  }
  return out;
}

Sweep Sweeper::run(const std::map<int, Pick>& picks) {
  return whole_of(attempt(picks));
}

void Sweeper::choose(int parameter, std::size_t option) {
  if (layouts_.chosen(parameter) == option) return;
  layouts_.choose(parameter, option);
  homes_.clear();
  relaid_ = true;
  for (std::size_t p = 0; p < candidates_.size(); p++) {
    const Pass& pass = passes_.passes[p];
    const bool copies = pass.reads.size() == 1 && at(passes_.tensors, pass.reads.front().tensor).role == TensorRole::parameter;
    if (copies || accesses(passes_, pass, parameter)) candidates_[p].clear();  // where owners have a parameter depends on all
  }
}

// Parts along the batch that no rule requires, by the name of their index and their cut, and the passes that have such a candidate.
std::vector<std::pair<Sweeper::NamedPart, std::vector<int>>> Sweeper::common_parts() const {
  std::vector<std::pair<NamedPart, std::vector<int>>> out;
  const std::string batch = batch_dim(passes_);
  for (std::size_t p = 0; p < passes_.passes.size(); p++) {
    std::vector<PickPart> cuts;
    offer_unruled(static_cast<int>(p), cuts);
    for (PickPart& c : cuts) {
      NamedPart part{at(passes_.passes[p].indices, c.index).name, std::move(c.cut)};
      if (part.index != batch) continue;
      auto known = std::find_if(out.begin(), out.end(), [&](const auto& o) { return o.first == part; });
      if (known == out.end()) known = out.insert(known, {std::move(part), {}});
      known->second.push_back(static_cast<int>(p));
    }
  }
  return out;
}

// The candidate that has this part and the same other parts as `pick`; nullptr: there is none.
const Pick* Sweeper::candidate_with(int pass, const Pick& pick, const NamedPart& part) const {
  const Pass& p = at(passes_.passes, pass);
  auto is_part = [&](const PickPart& c) { return at(p.indices, c.index).name == part.index && c.cut == part.cut; };
  auto goes_along = [&](const PickPart& c) {
    return at(p.indices, c.index).name != part.index && std::none_of(c.cut.axes.begin(), c.cut.axes.end(), [&](int a) {
             return std::find(part.cut.axes.begin(), part.cut.axes.end(), a) != part.cut.axes.end();
           });
  };
  const auto kept = static_cast<std::size_t>(std::count_if(pick.begin(), pick.end(), goes_along));
  for (const Pick& c : candidates(pass)) {
    const bool others_kept = std::all_of(c.begin(), c.end(), [&](const PickPart& one) {
      return is_part(one) || (goes_along(one) && std::find(pick.begin(), pick.end(), one) != pick.end());
    });
    if (c.size() == kept + 1 && others_kept && std::any_of(c.begin(), c.end(), is_part)) return &c;
  }
  return nullptr;
}

std::map<int, Pick> Sweeper::picks_of(const Trial& trial) const {
  std::map<int, Pick> picks;
  for (std::size_t t = 0; t < trial.tensors.size(); t++)
    for (std::size_t k = 0; k < trial.tensors[t]->passes.size(); k++) picks[writers_[t][k]] = trial.tensors[t]->picks[k];
  return picks;
}

void Sweeper::offer(Improved& best, const std::vector<std::pair<int, const Pick*>>& picks) const {
  std::vector<int> passes;
  std::vector<Pick> kept;
  for (const auto& [pass, pick] : picks) {
    passes.push_back(pass);
    kept.push_back(std::exchange(best.picks.at(pass), *pick));
  }
  const double enough = best.trial.cost * (1 - kEnough);
  Replaced before;
  const bool followed = change(best.trial, best.picks, passes, before);
  if (followed) {
    double cost = best.trial.cost;  // up to rounding; the sum over all tensors is computed only if it may matter
    for (const auto& [t, was] : before) cost += at(best.trial.tensors, t)->cost - was->cost;
    if (cost < best.trial.cost * (1 - kEnough / 2))
      if (const double exact = cost_of(best.trial); exact < enough) {
        best.trial.cost = exact;
        return;
      }
  }
  for (auto& [t, was] : before) at(best.trial.tensors, t) = std::move(was);
  if (!followed)  // the choice of a pick depends on other needs
    if (Trial other = attempt(best.picks); other.cost < enough) {
      best.trial = std::move(other);
      return;
    }
  for (std::size_t k = 0; k < passes.size(); k++) best.picks.at(passes[k]) = std::move(kept[k]);
}

void Sweeper::improve_options(Improved& best) {
  for (int parameter : passes_.parameters) {
    const std::size_t options = layouts_.options(parameter), kept = layouts_.chosen(parameter);
    if (options < 2) continue;
    std::map<int, Pick> others = best.picks;  // passes unrelated to the parameter keep their picks
    std::erase_if(others, [&](const auto& entry) { return accesses(passes_, at(passes_.passes, entry.first), parameter); });
    std::size_t chosen = kept;
    for (std::size_t k = 0; k < options; k++) {
      if (k == kept) continue;
      choose(parameter, k);
      Trial other = attempt(others);
      if (other.cost < best.trial.cost * (1 - kEnough)) {
        best.trial = std::move(other);
        chosen = k;
      }
    }
    choose(parameter, chosen);
    if (chosen != kept) best.picks = picks_of(best.trial);
  }
}

// Tries each part on all passes that can have it, and on those of each layer.
void Sweeper::improve_common_parts(Improved& best) const {
  for (const auto& [part, passes] : common_parts()) {
    std::map<std::string, std::vector<int>> scopes;
    for (int p : passes)
      if (best.picks.contains(p))
        for (const std::string& scope : {std::string(), at(passes_.passes, p).layer}) scopes[scope].push_back(p);
    for (const auto& [scope, of_scope] : scopes) {
      std::vector<std::pair<int, const Pick*>> different;
      for (int p : of_scope)
        if (const Pick* with = candidate_with(p, best.picks.at(p), part); with != nullptr && *with != best.picks.at(p))
          different.emplace_back(p, with);
      if (!different.empty()) offer(best, different);
    }
  }
}

void Sweeper::improve_made_together(Improved& best) const {
  const auto passes = static_cast<int>(passes_.passes.size());
  MadeTogether group;
  for (int first = 0; first < passes; first += group.count) {
    group = made_together(passes_, first);
    if (group.count == 1 || !best.picks.contains(first)) continue;
    for (const Pick& pick : candidates(first)) {
      std::vector<std::pair<int, const Pick*>> different;
      for (int p = first; p < first + group.count; p++) {
        const std::vector<Pick>& its = candidates(p);
        if (!best.picks.contains(p) || best.picks.at(p) == pick || std::find(its.begin(), its.end(), pick) == its.end()) continue;
        different.emplace_back(p, &pick);
      }
      if (different.size() > 1) offer(best, different);
    }
  }
}

void Sweeper::improve_picks(Improved& best) const {
  for (int pass : pass_order_) {
    if (!best.picks.contains(pass)) continue;
    for (const Pick& pick : candidates(pass)) {
      if (pick != best.picks.at(pass)) offer(best, {{pass, &pick}});
    }
  }
}

Sweep Sweeper::improve(const std::map<int, Pick>& from) {
  Improved best{attempt(from), {}};
  best.picks = picks_of(best.trial);
  improve_options(best);
  improve_common_parts(best);
  improve_made_together(best);
  for (int round = 0; round < 2; round++) {
    const double before = best.trial.cost;
    improve_picks(best);
    if (best.trial.cost > before * (1 - kEnough)) break;
  }
  return whole_of(best.trial);
}

}  // namespace motley
