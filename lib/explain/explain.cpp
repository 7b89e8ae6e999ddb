// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <motley/error.h>

#include <algorithm>
#include <map>

#include "base/at.h"
#include "base/units.h"
#include "base/utf8.h"
#include "explain/describe.h"
#include "plan/layouts.h"
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

std::string whole_text(const Plan& plan, const Profile& profile) {
  const PlanData& d = plan.data();
  std::string out = "ranks\n";
  for (int r = 0; r < plan.mesh().ranks(); r++) {
    const PredictedRank& p = at(d.predicted, r);
    out += "  " + rank_words(plan.mesh(), r) + "  receives " + bytes_text(static_cast<double>(p.bytes)) + " per step" +
           (d.step_seconds ? ", computes " + seconds_text(p.seconds) : "") + "\n";
  }
  out += "tensors (fraction stored by each rank; its cuts. `no rule`: each rank stores what it needs)\n";
  for (std::size_t i = 0; i < d.tensors.size(); i++) {
    const StepTensor& t = d.passes.tensors[i];
    if (t.of >= 0 || t.role == TensorRole::seed) continue;
    std::vector<Index> elements(static_cast<std::size_t>(plan.mesh().ranks()), 0);
    for (const Shard& h : resting_boxes(d, plan.mesh(), static_cast<int>(i))) at(elements, h.rank) += volume(h.box);
    std::string left = "  " + padded(t.name, 30);
    for (Index e : elements) left += right(percent(e, volume(whole(t.shape))), 6);
    left += "  ";
    out += left + wrapped(layout_words(plan.mesh(), d.tensors[i].layout), left.size()) + "\n";
  }
  out += "passes (how each is divided; demand-driven: every rank computes what its own passes read)\n" + pass_table(plan, -1);
  std::vector<Movement> all;
  for (std::size_t i = 0; i < d.tensors.size(); i++)
    for (Movement& m : movements_of(plan, profile, static_cast<int>(i))) all.push_back(std::move(m));
  out += all.empty() ? "exchanges: none\n" : "exchanges\n" + movement_table(all, !profile.empty());
  return out;
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

std::string pick_words(const Plan& plan, int pass) {
  const Pass& p = at(plan.data().passes.passes, pass);
  const PassPlan& own = at(plan.data().pass_plans, pass);
  std::string out;
  std::vector<bool> cut(plan.mesh().axes().size(), false);
  for (const PickPart& part : own.pick) {
    const bool boxes = std::find(p.writes.indices.begin(), p.writes.indices.end(), part.index) != p.writes.indices.end();
    const char* partial = p.combine == Combine::max ? " (partial maxima)" : " (partial sums)";
    out += (out.empty() ? "" : ", ") + at(p.indices, part.index).name + " cut over " + axis_words(plan.mesh(), part.cut) +
           (boxes ? "" : partial);
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
      parts += (parts.empty() ? "each rank its part of " : ", ") + p.indices[i].name;
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

std::string explain_text(const Plan& plan, const Profile& profile, const std::string& tensor) {
  return tensor.empty() ? whole_text(plan, profile) : tensor_text(plan, profile, find_tensor(plan.data().passes, tensor));
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
  out.set("tensors", std::move(tensors)).set("passes", std::move(passes)).set("exchanges", std::move(exchanges));
  return out;
}

}  // namespace motley
