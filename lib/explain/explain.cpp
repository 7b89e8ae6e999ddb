// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <motley/error.h>

#include <algorithm>
#include <map>

#include "balance/arrange.h"
#include "base/at.h"
#include "base/units.h"
#include "base/utf8.h"
#include "explain/describe.h"
#include "graph/layers.h"
#include "plan/layouts.h"
#include "plan/moved_once.h"
#include "plan/plan_file.h"
#include "plan/schedules.h"

namespace motley {

namespace {

std::string right(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string shape_words(const Shape& shape) {
  std::string out;
  for (const Dim& d : shape.dims()) out += (out.empty() ? "" : ", ") + d.name + " " + std::to_string(d.size);
  return out.empty() ? "scalar" : out;
}

std::string role_words(TensorRole role) {
  switch (role) {
    case TensorRole::input: return "input";
    case TensorRole::label: return "labels";
    case TensorRole::seed: return "seed";
    case TensorRole::key: return "random keys";
    case TensorRole::parameter: return "parameter";
    case TensorRole::activation: return "activation";
    case TensorRole::gradient:
    case TensorRole::parameter_gradient: return "gradient";
  }
  throw InternalError("an unknown role");
}

std::string axis_words(const Mesh& mesh, const Cut& cut) {
  std::string out;
  for (int a : cut.axes) out += (out.empty() ? "`" : ", `") + at(mesh.axes(), a).name + "`";
  return out;
}

std::string layout_words(const Mesh& mesh, const Layout& layout) {
  std::string out;
  for (const auto& [dim, cut] : layout.cuts) {
    out += (out.empty() ? "" : "; ") + dim + " over " + axis_words(mesh, cut) + ":";
    std::vector<std::vector<Index>> lists;
    for (const Partition& list : cut.lists) lists.push_back(list.sizes());
    out += " " + lists_text(lists);
    if (cut.per >= 0) out += " along `" + at(mesh.axes(), cut.per).name + "`";
  }
  return out.empty() ? "no rule" : out;
}

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out, line;
  for (std::size_t here = 0; here < text.size();) {
    const std::size_t end = std::min(text.find(' ', here), text.size());
    const std::string word = text.substr(here, end - here);
    if (!line.empty() && indent + line.size() + 1 + word.size() > 100) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    here = end + 1;
  }
  return out + line;
}

std::string percent(Index part, Index whole) {
  return std::to_string(whole == 0 ? 0 : (200 * part + whole) / (2 * whole)) + " %";
}

std::string rank_words(const Mesh& mesh, int rank) {
  return padded("rank " + std::to_string(rank), 8) + " " + padded(first_characters(mesh.device(rank).name, 20), 20);
}

std::string held_words(const Plan& plan, const StepTensor& t, const std::vector<Shard>& held) {
  std::string out;
  for (int r = 0; r < plan.mesh().ranks(); r++) {
    Index elements = 0;
    std::string boxes;
    for (const Shard& h : held)
      if (h.rank == r) {
        elements += volume(h.box);
        boxes += (boxes.empty() ? "" : "; ") + box_words(t.shape, h.box);
      }
    const std::string left = "  " + rank_words(plan.mesh(), r) + right(percent(elements, volume(whole(t.shape))), 6) + "  ";
    out += left + (boxes.empty() ? "nothing" : wrapped(boxes, left.size())) + "\n";
  }
  return out;
}

std::string movement_table(const std::vector<Movement>& all, bool seconds) {
  std::string out;
  for (const Movement& m : all) {
    std::string left = "  " + padded(to_string(m.kind), 15) + padded(m.tensor, 30) + right(std::to_string(m.from), 3) + " -> " +
                       padded(std::to_string(m.to), 4) + right(bytes_text(static_cast<double>(m.bytes)), 10) +
                       (seconds ? right(seconds_text(m.seconds), 10) : "") + "  " + std::to_string(m.boxes.size()) +
                       (m.boxes.size() == 1 ? " box" : " boxes") + (m.step == "add" ? ", partial sums" : "") +
                       (m.tiled ? ", tiled, overlaps kernels" : "") + (m.schedule == "direct" ? "" : ", " + m.schedule);
    out += left + "\n";
  }
  return out;
}

std::string pass_table(const Plan& plan, int tensor) {
  const Passes& passes = plan.data().passes;
  std::string out;
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    const Pass& pass = passes.passes[p];
    const bool writes = pass.writes.tensor == tensor;
    const bool reads = std::any_of(pass.reads.begin(), pass.reads.end(), [&](const PassOperand& o) { return o.tensor == tensor; });
    if (tensor >= 0 && !writes && !reads) continue;
    const std::string left = "  " + padded(pass.name, 38) + (tensor < 0 ? "" : writes ? "writes  " : "reads   ");
    out += left + wrapped(pick_words(plan, static_cast<int>(p)), left.size()) + "\n";
  }
  return out;
}

std::string tensor_text(const Plan& plan, const Profile& profile, int tensor) {
  const PlanData& d = plan.data();
  const StepTensor& t = at(d.passes.tensors, tensor);
  const TensorPlan& own = at(d.tensors, tensor);
  const double bytes =
      static_cast<double>(volume(whole(t.shape))) * static_cast<double>(item_bytes(d, static_cast<std::size_t>(tensor)));
  std::string out = t.name + ": " + role_words(t.role) + ", " + shape_words(t.shape) + ", " + bytes_text(bytes) + "\n";
  const bool fed = t.role == TensorRole::input || t.role == TensorRole::label;
  out +=
      "cuts: " + wrapped(layout_words(plan.mesh(), own.layout) + (fed ? "; each rank reads from the data what it needs" : ""), 6) +
      "\n";
  out += "stored by (fraction of the tensor, box)\n" + held_words(plan, t, resting_boxes(d, plan.mesh(), tensor));
  if (t.role == TensorRole::parameter) out += "owned and updated by (one owner per element)\n" + held_words(plan, t, own.home);
  out += "read by\n" + held_words(plan, t, own.readers);
  out += "passes\n" + pass_table(plan, tensor);
  const std::vector<Movement> moves = movements_of(plan, profile, tensor);
  return out + (moves.empty() ? "exchanges: none\n" : "exchanges\n" + movement_table(moves, !profile.empty()));
}

// Rows that say the same are one row with the names of all: the rarest first, as that is what is unusual. Without the names of the
// last one, if it has many: it is all others.
class Grouped {
 public:
  explicit Grouped(std::string what) : what_(std::move(what)) {}
  void add(const std::string& words, const std::string& name) {
    const auto [found, is_new] = numbers_.emplace(words, groups_.size());
    if (is_new) groups_.push_back({words, {}});
    groups_[found->second].names.push_back(name);
  }
  void leave_out() { left_out_++; }
  std::string text() {
    constexpr std::size_t kFew = 8, kNamed = 8;
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return a.names.size() < b.names.size(); });
    std::string out;
    for (const Group& group : groups_) {
      const std::size_t n = group.names.size();
      const bool others = &group == &groups_.back() && n > kFew;
      const std::string count = others ? (groups_.size() == 1 ? "all " : "the other ") + std::to_string(n) + " " + what_ : "";
      const std::string left(2 + group.words.find_first_not_of(' '), ' ');
      out += left + wrapped(group.words.substr(left.size() - 2) + (others ? "  -  " + count : ""), 4) + "\n";
      std::string names;
      for (std::size_t k = 0; k < std::min(n, kNamed); k++) names += (k == 0 ? "" : ", ") + group.names[k];
      if (n > kNamed) names += " and " + std::to_string(n - kNamed) + " more";
      if (!others) out += "      " + wrapped(names, 6) + "\n";
    }
    if (left_out_ > 0) out += "  and " + std::to_string(left_out_) + " inside of layers; --full lists all\n";
    return out;
  }

 private:
  struct Group {
    std::string words{};
    std::vector<std::string> names{};
  };
  std::string what_;
  int left_out_ = 0;
  std::vector<Group> groups_{};
  std::map<std::string, std::size_t> numbers_{};
};

// One row for all tensors that move in the same way, the largest tensors first.
std::string movements_by_kind(const std::vector<Movement>& all, bool seconds) {
  struct Kind {
    Index bytes = 0;
    double seconds = 0;
    std::map<std::string, Index> tensors{};
  };
  std::map<std::string, Kind> kinds;
  for (const Movement& m : all) {
    const bool says = m.kind == Collective::all_reduce || m.kind == Collective::reduce_scatter;  // that there are partial sums
    Kind& kind = kinds[to_string(m.kind) + (m.step == "add" && !says ? ", partial sums" : "") +
                       (m.tiled ? ", tiled, overlaps kernels" : "") + (m.schedule == "direct" ? "" : ", " + m.schedule)];
    kind.bytes += m.bytes;
    kind.seconds += m.seconds;
    kind.tensors[m.tensor] += m.bytes;
  }
  std::vector<std::pair<std::string, Kind>> sorted(kinds.begin(), kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string out;
  for (const auto& [words, kind] : sorted) {
    const std::size_t n = kind.tensors.size();
    out += "  " + padded(words, 44) + right(std::to_string(n) + (n == 1 ? " tensor" : " tensors"), 12) +
           right(bytes_text(static_cast<double>(kind.bytes)), 12) + (seconds ? right(seconds_text(kind.seconds), 12) : "") + "\n";
    std::vector<std::pair<std::string, Index>> largest(kind.tensors.begin(), kind.tensors.end());
    std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    constexpr std::size_t kNamed = 5;
    std::string names;
    for (std::size_t i = 0; i < std::min(n, kNamed); i++)
      names += (i == 0 ? "" : ", ") + largest[i].first + " (" + bytes_text(static_cast<double>(largest[i].second)) + ")";
    if (n > kNamed) names += " and " + std::to_string(n - kNamed) + " more";
    out += "      " + wrapped(names, 6) + "\n";
  }
  return out;
}

std::string passes_by_division(const Plan& plan) {
  const Passes& passes = plan.data().passes;
  Grouped groups("passes");
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    const Pass& pass = passes.passes[p];
    if (pass.op == KernelOp::map && is_inner(passes, pass.writes.tensor))
      groups.leave_out();
    else
      groups.add(pick_words(plan, static_cast<int>(p), Names::roles), pass.name);
  }
  return groups.text();
}

// "  67 %  33 %  ": the fraction that each rank stores.
std::string fractions(const Plan& plan, std::size_t tensor) {
  const PlanData& d = plan.data();
  std::vector<Index> elements(static_cast<std::size_t>(plan.mesh().ranks()), 0);
  for (const Shard& h : resting_boxes(d, plan.mesh(), static_cast<int>(tensor))) at(elements, h.rank) += volume(h.box);
  std::string out;
  for (Index e : elements) out += right(percent(e, volume(whole(d.passes.tensors[tensor].shape))), 6);
  return out + "  ";
}

std::string whole_text(const Plan& plan, const Profile& profile, bool full) {
  const PlanData& d = plan.data();
  std::string out = d.axes.chosen.empty() ? "" : wrapped(axes_text(d.axes), 2) + "\n";
  out += "ranks" + std::string(d.step_seconds ? modelled_words(plan.mesh()) : "") + "\n";
  for (int r = 0; r < plan.mesh().ranks(); r++) {
    const PredictedRank& p = at(d.predicted, r);
    out += "  " + rank_words(plan.mesh(), r) + "  receives " + bytes_text(static_cast<double>(p.bytes)) + " per step" +
           (d.step_seconds ? ", computes " + seconds_text(p.seconds) : "") + "\n";
  }
  for (const std::string& line : idle_lines(d, plan.mesh())) out += wrapped(line, 2) + "\n";
  const std::string order = full ? "" : ", the rarest first";
  out += "passes: how divided" + order + " (demand-driven: a rank computes what its own passes read)\n";
  out += full ? pass_table(plan, -1) : passes_by_division(plan);
  out += "tensors: fraction that each rank stores, cuts" + order + " (no rule: it stores what it needs)\n";
  Grouped tensors("tensors");
  for (std::size_t i = 0; i < d.tensors.size(); i++) {
    const StepTensor& t = d.passes.tensors[i];
    if (t.of >= 0 || t.role == TensorRole::seed) continue;
    if (full) {
      const std::string left = "  " + padded(t.name, 30) + fractions(plan, i);
      out += left + wrapped(layout_words(plan.mesh(), d.tensors[i].layout), left.size()) + "\n";
    } else if (is_inner(d.passes, static_cast<int>(i)) || t.role == TensorRole::key ||
               resting_boxes(d, plan.mesh(), static_cast<int>(i)).empty()) {
      tensors.leave_out();
    } else {
      tensors.add(fractions(plan, i) + layout_words(plan.mesh(), d.tensors[i].layout), t.name);
    }
  }
  out += tensors.text();
  std::vector<Movement> all;
  for (std::size_t i = 0; i < d.tensors.size(); i++)
    for (Movement& m : movements_of(plan, profile, static_cast<int>(i))) all.push_back(std::move(m));
  if (all.empty()) return out + "exchanges: none\n";
  if (full) return out + "exchanges\n" + movement_table(all, !profile.empty());
  return out + "exchanges: received per step" + (profile.empty() ? "" : ", seconds of these messages one by one") +
         " (--full lists each)\n" + movements_by_kind(all, !profile.empty());
}

}  // namespace

int find_tensor(const Passes& passes, const std::string& name) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < passes.tensors.size(); i++) {
    if (passes.tensors[i].name == name) return static_cast<int>(i);
    if (passes.tensors[i].of < 0 && passes.tensors[i].role != TensorRole::seed) known.push_back(passes.tensors[i].name);
  }
  throw UserError("--tensor: the step has no tensor \"" + name + "\"" + did_you_mean(name, known), Exit::usage);
}

std::string box_words(const Shape& shape, const Box& box) {
  std::string out;
  for (std::size_t i = 0; i < box.size(); i++)
    if (box[i].begin != 0 || box[i].end != shape[i].size)
      out += (out.empty() ? "" : ", ") + shape[i].name + " " + std::to_string(box[i].begin) + ".." + std::to_string(box[i].end);
  return out.empty() ? "all of it" : out;
}

namespace {

// Of an index that no rule names: what it is to a convolution, and of a dim that some parameter has, "channels". So the same can be
// said of layers whose dims have other names.
std::string role_of(const Plan& plan, const Pass& pass, int index) {
  const std::string& name = at(pass.indices, index).name;
  const std::vector<Rule>& rules = plan.data().rules.split;
  if (std::any_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.dim == name; })) return name;
  const auto is = [&](std::size_t role) { return role < pass.roles.size() && pass.roles[role] == index; };
  if (is(1) || is(4)) return is(1) ? "channels" : "filters";  // Pass::roles: n c h w f r s p q
  const Passes& passes = plan.data().passes;
  const bool of_parameter = pass.op == KernelOp::map && std::any_of(passes.parameters.begin(), passes.parameters.end(),
                                                                    [&](int t) { return at(passes.tensors, t).shape.has(name); });
  return of_parameter ? "channels" : name;
}

}  // namespace

std::string pick_words(const Plan& plan, int pass, Names names) {
  const Pass& p = at(plan.data().passes.passes, pass);
  const PassPlan& own = at(plan.data().pass_plans, pass);
  const auto name_of = [&](int index) { return names == Names::roles ? role_of(plan, p, index) : at(p.indices, index).name; };
  std::string out;
  std::vector<bool> cut(plan.mesh().axes().size(), false);
  for (const PickPart& part : own.pick) {
    const bool boxes = std::find(p.writes.indices.begin(), p.writes.indices.end(), part.index) != p.writes.indices.end();
    const char* partial = p.combine == Combine::max ? " (partial maxima)" : " (partial sums)";
    out +=
        (out.empty() ? "" : ", ") + name_of(part.index) + " cut over " + axis_words(plan.mesh(), part.cut) + (boxes ? "" : partial);
    for (int a : part.cut.axes) at(cut, a) = true;
  }
  std::string uncut, ranks;
  for (std::size_t a = 0; a < cut.size(); a++)
    if (!cut[a] && plan.mesh().axes()[a].size > 1) uncut += (uncut.empty() ? "`" : ", `") + plan.mesh().axes()[a].name + "`";
  std::string parts;
  for (std::size_t i = 0; i < p.indices.size(); i++)
    if (std::any_of(own.work.begin(), own.work.end(),
                    [&](const Work& w) { return w.any && w.box[i].size() != p.indices[i].size; }) &&
        p.indices[i].name.find(':') == std::string::npos &&
        std::none_of(own.pick.begin(), own.pick.end(), [&](const PickPart& part) { return part.index == static_cast<int>(i); }))
      parts += (parts.empty() ? "each rank its part of " : ", ") + name_of(static_cast<int>(i));
  if (!uncut.empty())
    out += (out.empty() ? "" : ", ") + std::string("demand-driven over ") + uncut + ": " +
           (parts.empty() ? "every rank all of it" : parts);
  int some = 0;
  for (std::size_t r = 0; r < own.work.size(); r++)
    if (own.work[r].any) some++, ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  if (some == 1 && plan.mesh().ranks() > 1) return "on rank " + ranks + " only";
  if (some < plan.mesh().ranks())
    out += (out.empty() ? "" : "; ") +
           (some == 0 ? std::string("computed by no rank") : (some == 1 ? "on rank " : "on ranks ") + ranks + " only");
  return out.empty() ? "on the one rank" : out;
}

std::vector<Movement> movements_of(const Plan& plan, const Profile& profile, int tensor) {
  const PlanData& d = plan.data();
  const TensorPlan& own = at(d.tensors, tensor);
  if (std::none_of(kHops.begin(), kHops.end(), [&](auto hop) { return (own.*hop).travels(); })) return {};
  const StepTensor& t = at(d.passes.tensors, tensor);
  const Index item = item_bytes(d, static_cast<std::size_t>(tensor)), times = at(moves_per_step(d), tensor);
  const std::set<std::string> slid = slid_dims(d.passes);
  std::vector<Movement> out;
  const std::array<Stages, 3> stages = stages_of(own, d.hosts);
  auto hop = [&](std::size_t move, const char* step) {
    std::map<std::pair<int, int>, Movement> pairs;
    for (const auto& stage : stages[move])
      for (const BoxMessage& m : stage) {
        if (m.from == m.to) continue;
        Movement& one = pairs[{m.from, m.to}];
        one.boxes.push_back(m.box);
        one.bytes += volume(m.box) * item;
      }
    for (auto& [who, one] : pairs) {
      one.tensor = t.name;
      one.step = step;
      one.tiled = (own.*kHops[move]).tiles > 0;
      one.schedule = to_string((own.*kHops[move]).schedule);
      one.from = who.first;
      one.to = who.second;
      one.kind = kind_of(own, slid, kHops[move]);
      if (!profile.empty()) one.seconds = profile.seconds(one.from, one.to, one.bytes).seconds * static_cast<double>(times);
      one.bytes *= times;
      out.push_back(std::move(one));
    }
  };
  hop(0, kHopNames[adds_terms(own) ? 0 : 1]);
  hop(1, kHopNames[1]);
  hop(2, kHopNames[2]);
  return out;
}

std::string explain_text(const Plan& plan, const Profile& profile, const std::string& tensor, PlanDetail detail) {
  return tensor.empty() ? whole_text(plan, profile, detail == PlanDetail::full)
                        : tensor_text(plan, profile, find_tensor(plan.data().passes, tensor));
}

Json explain_json(const Plan& plan, const Profile& profile, const std::string& tensor) {
  const PlanData& d = plan.data();
  const int only = tensor.empty() ? -1 : find_tensor(d.passes, tensor);
  auto boxes_json = [](const std::vector<Box>& boxes) {
    Json out{Json::Array{}};
    for (const Box& b : boxes) {
      Json one{Json::Array{}};
      for (const Range& r : b) one.push(Json{Json::Array{Json(r.begin), Json(r.end)}});
      out.push(std::move(one));
    }
    return out;
  };
  auto held_json = [&](const std::vector<Shard>& held) {
    Json out{Json::Array{}};
    for (int r = 0; r < plan.mesh().ranks(); r++) {
      std::vector<Box> boxes;
      for (const Shard& h : held)
        if (h.rank == r) boxes.push_back(h.box);
      out.push(boxes_json(boxes));
    }
    return out;
  };
  Json tensors{Json::Object{}}, passes{Json::Array{}}, exchanges{Json::Array{}};
  for (std::size_t i = 0; i < d.tensors.size(); i++) {
    const StepTensor& t = d.passes.tensors[i];
    if (t.role == TensorRole::seed || (only >= 0 && only != static_cast<int>(i))) continue;
    Json dims{Json::Object{}}, one;
    for (const Dim& dim : t.shape.dims()) dims.set(dim.name, dim.size);
    one.set("role", role_words(t.role)).set("dims", std::move(dims)).set("cuts", layout_words(plan.mesh(), d.tensors[i].layout));
    one.set("boxes", held_json(resting_boxes(d, plan.mesh(), static_cast<int>(i)))).set("needs", held_json(d.tensors[i].readers));
    one.set("owners", held_json(d.tensors[i].owners));
    tensors.set(t.name, std::move(one));
    for (const Movement& m : movements_of(plan, profile, static_cast<int>(i))) {
      Json move;
      move.set("tensor", m.tensor).set("kind", to_string(m.kind)).set("step", m.step).set("from", m.from).set("to", m.to);
      if (m.tiled) move.set("tiled", true);
      move.set("boxes", boxes_json(m.boxes))
          .set("bytes", m.bytes)
          .set("seconds", profile.empty() ? Json(nullptr) : Json(m.seconds))
          .set("schedule", m.schedule);
      exchanges.push(std::move(move));
    }
  }
  for (std::size_t p = 0; p < d.passes.passes.size(); p++) {
    const Pass& pass = d.passes.passes[p];
    if (only >= 0 && pass.writes.tensor != only &&
        std::none_of(pass.reads.begin(), pass.reads.end(), [&](const PassOperand& o) { return o.tensor == only; }))
      continue;
    Json one;
    passes.push(std::move(one.set("pass", pass.name).set("pick", pick_words(plan, static_cast<int>(p)))));
  }
  Json out;
  if (!d.axes.chosen.empty()) out.set("axes", to_json(d.axes));
  out.set("tensors", std::move(tensors)).set("passes", std::move(passes)).set("exchanges", std::move(exchanges));
  return out;
}

}  // namespace motley
