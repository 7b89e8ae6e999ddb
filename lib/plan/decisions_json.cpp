// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "base/json_fields.h"
#include "kernels/kernel_spec_json.h"
#include "plan/layouts.h"
#include "plan/moved_once.h"
#include "plan/plan_file.h"
#include "plan/rules_json.h"

namespace motley {

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

Json sizes_json(const std::vector<Index>& list) {
  return Json::Array(list.begin(), list.end());
}

namespace {

Json devices_json(const Mesh& mesh) {
  Json out{Json::Array{}};
  for (const Device& d : mesh.devices()) out.push(d.name);
  return out;
}

Json axes_json(const Mesh& mesh) {
  Json out{Json::Array{}};
  for (const Axis& a : mesh.axes()) out.push(std::move(Json().set("name", a.name).set("size", a.size)));
  return out;
}

Json pick_json(const Pass& pass, const Pick& pick, const Mesh& mesh) {
  auto axis = [&](int a) { return Json(at(mesh.axes(), a).name); };
  Json out{Json::Array{}};
  for (const PickPart& part : pick) {
    Json axes{Json::Array{}}, lists{Json::Array{}};
    for (int a : part.cut.axes) axes.push(axis(a));
    for (const Partition& p : part.cut.lists) {
      const std::vector<Index> sizes = p.sizes();
      lists.push(Json::Array(sizes.begin(), sizes.end()));
    }
    Json one;
    one.set("index", part.index).set("name", at(pass.indices, part.index).name).set("axes", std::move(axes));
    if (part.cut.per >= 0) one.set("per", axis(part.cut.per));
    one.set("parts", std::move(lists));
    out.push(std::move(one));
  }
  return out;
}

// Per rank the chosen implementations, where the rank's device has a choice.
Json implementations_json(const PlanData& data) {
  Json ranks{Json::Array{}};
  for (const auto& list : data.implementations) {
    Json chosen{Json::Array{}};
    for (const ChosenKernel& c : list) {
      Json one{Json::Object{}};
      one.set("kernel", to_json_value(c.spec)).set("implementation", c.implementation);
      chosen.push(std::move(one));
    }
    ranks.push(std::move(chosen));
  }
  return ranks;
}

// Per rank the kernels that are not fused.
Json apart_json(const PlanData& data) {
  Json ranks{Json::Array{}};
  for (const auto& list : data.apart) {
    Json specs{Json::Array{}};
    for (const KernelSpec& spec : list) specs.push(to_json_value(spec));
    ranks.push(std::move(specs));
  }
  return ranks;
}

// The hops that are not direct, or that are tiled.
Json hops_json(const PlanData& data) {
  Json out{Json::Array{}};
  for (std::size_t t = 0; t < data.tensors.size(); t++)
    for (std::size_t k = 0; k < kHops.size(); k++) {
      const Hop& hop = data.tensors[t].*kHops[k];
      if (hop.schedule == Schedule{} && hop.tiles == 0) continue;
      Json one;
      one.set("tensor", data.passes.tensors[t].name).set("hop", kHopNames[k]).set("tree", at(kTreeNames, hop.schedule.tree));
      out.push(std::move(one.set("chunks", hop.schedule.chunks).set("tiles", hop.tiles)));
    }
  return out;
}

// The homes that another plan decided.
Json homes_json(const LayoutRules& rules) {
  Json out{Json::Array{}};
  for (const auto& [name, home] : rules.homes)
    for (const Shard& h : home) {
      Json box{Json::Array{}};
      for (const Range& r : h.box) box.push(Json::Array{Json(r.begin), Json(r.end)});
      out.push(std::move(Json().set("parameter", name).set("rank", h.rank).set("box", std::move(box))));
    }
  return out;
}

// The number of a parameter's layout among those that its rules allow.
Index option_of(Layouts& layouts, int tensor, const Layout& layout) {
  for (std::size_t k = 0; k < layouts.options(tensor); k++) {
    layouts.choose(tensor, k);
    if (layouts.of(tensor) == layout) return static_cast<Index>(k);
  }
  throw InternalError("a parameter's layout is one of those that its rules allow");
}

Json cuts_json(const PlanData& d) {
  Json out{Json::Array{}};
  for (const CutChoice& c : d.cuts) {
    Json one{Json::Object{}}, lists{Json::Array{}};
    for (const auto& list : c.parts) lists.push(sizes_json(list));
    one.set("dim", c.dim).set("axis", c.axis).set("parts", c.per.empty() ? sizes_json(c.parts.front()) : lists);
    if (!c.per.empty()) one.set("per", c.per);
    if (!c.why.empty()) one.set("why", c.why);
    out.push(std::move(one));
  }
  return out;
}

Json layout_json(const PlanData& d) {
  Json out{Json::Array{}};
  for (const LayerChoice& c : d.layout) {
    Json one{Json::Object{}};
    one.set("layers", c.layers).set("cut", c.cut);
    if (!c.next_best.empty()) one.set("next_best", c.next_best);
    if (c.next_best_seconds) one.set("next_best_seconds", *c.next_best_seconds);
    out.push(std::move(one));
  }
  return out;
}

Json idle_json(const PlanData& d, const Mesh& mesh) {
  Json out{Json::Array{}};
  for (const IdleDevice& i : d.idle) {
    Json one;
    one.set("rank", i.rank).set("device", mesh.device(i.rank).name).set("why", i.why);
    out.push(std::move(one.set("step_seconds_with_it", json_or_null(i.with_it))));
  }
  return out;
}

Json predicted_json(const PlanData& d) {
  Json out{Json::Object{}}, ranks{Json::Array{}};
  for (const PredictedRank& r : d.predicted) {
    Json one{Json::Object{}};
    one.set("seconds", d.step_seconds ? Json(r.seconds) : Json(nullptr))
        .set("estimated_seconds", d.step_seconds ? Json(r.estimated_seconds) : Json(nullptr))
        .set("bytes", Json(r.bytes))
        .set("memory_bytes", Json(r.memory_bytes));
    ranks.push(std::move(one));
  }
  out.set("step_seconds", json_or_null(d.step_seconds))
      .set("step_seconds_q25", json_or_null(d.step_q25))
      .set("step_seconds_q75", json_or_null(d.step_q75))
      .set("estimated_share", json_or_null(estimated_share(d)))
      .set("ranks", std::move(ranks));
  return out;
}

Json baselines_json(const Baseline& b) {
  Json out{Json::Object{}};
  out.set("even", json_or_null(b.even))
      .set("proportional", json_or_null(b.proportional))
      .set("fast_alone", json_or_null(b.fast_alone));
  return out;
}

Json network_json(const Passes& passes) {
  Json out{Json::Array{}};
  for (const std::string& one : network_of(passes)) out.push(one);
  return out;
}

Json decisions_json(const PlanData& data, const Step& step, const Mesh& mesh) {
  Json passes{Json::Array{}}, parameters{Json::Array{}};
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    passes.push(std::move(Json().set("pass", pass.name).set("pick", pick_json(pass, data.pass_plans[p].pick, mesh))));
  }
  Layouts layouts(data.passes, mesh, data.rules);
  for (int t : data.passes.parameters)
    if (layouts.options(t) > 1) {
      const auto here = static_cast<std::size_t>(t);
      parameters.push(std::move(
          Json().set("name", data.passes.tensors[here].name).set("option", option_of(layouts, t, data.tensors[here].layout))));
    }
  Json out;
  out.set("step", hex(step.hash()))
      .set("network", network_json(step.passes()))
      .set("dtype", to_string(data.dtype))
      .set("axes", axes_json(mesh))
      .set("devices", devices_json(mesh))
      .set("rules", to_json(data.rules));
  out.set("passes", std::move(passes)).set("parameters", std::move(parameters)).set("hops", hops_json(data));
  if (std::any_of(data.implementations.begin(), data.implementations.end(), [](const auto& list) { return !list.empty(); }))
    out.set("implementations", implementations_json(data));
  if (!data.apart.empty()) out.set("apart", apart_json(data));
  if (may_keep(data.passes) && !data.repeats) out.set("parameters_stay", true);
  if (!data.rules.homes.empty()) out.set("homes", homes_json(data.rules));
  return out;
}

}  // namespace

std::vector<std::string> network_of(const Passes& passes) {
  std::vector<std::string> out;
  for (const StepTensor& t : passes.tensors)
    if (t.role == TensorRole::input || t.role == TensorRole::label || t.role == TensorRole::parameter) {
      std::string& text = out.emplace_back(t.name + " [");
      for (std::size_t d = 0; d < t.shape.rank(); d++) text += (d == 0 ? "" : ", ") + std::to_string(t.shape[d].size);
      text += "]";
    }
  return out;
}

Json to_json(const AxesChoice& axes) {
  Json out{Json::Object{}};
  out.set("chosen", axes.chosen).set("seconds", json_or_null(axes.seconds));
  if (!axes.next_best.empty()) out.set("next_best", axes.next_best).set("next_best_seconds", json_or_null(axes.next_best_seconds));
  return std::move(out.set("complete_plans", axes.complete_plans).set("dropped", axes.dropped));
}

Json kept_json(const Plan& plan) {
  const PlanData& data = plan.data();
  Json notes{Json::Array{}};
  for (const std::string& n : data.notes) notes.push(Json(n));
  Json out{Json::Object{}};
  out.set("version", kPlanVersion)
      .set("cuts", cuts_json(data))
      .set("predicted", predicted_json(data))
      .set("baselines", baselines_json(data.baselines))
      .set("notes", std::move(notes))
      .set("decisions", decisions_json(data, plan.step(), plan.mesh()));
  if (!data.layout.empty()) out.set("layout", layout_json(data));
  if (!data.axes.chosen.empty()) out.set("axes", to_json(data.axes));
  if (!data.idle.empty()) out.set("idle", idle_json(data, plan.mesh()));
  return out;
}

}  // namespace motley
