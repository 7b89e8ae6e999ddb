// SPDX-License-Identifier: Apache-2.0
#include "balance/needed_kernels.h"

#include <algorithm>
#include <unordered_map>

#include "balance/candidate_sizes.h"
#include "balance/choose_layout.h"
#include "plan/kernel_of.h"
#include "plan/planner.h"
#include "plan/tiles.h"
#include "program/compile.h"

namespace motley {

namespace {

constexpr Index kMostSizes = 24, kFewSizes = 8;  // per dim; few where several layouts are compared

struct Specs {
  std::vector<KernelSpec> list{};
  std::unordered_map<std::size_t, std::vector<std::size_t>> seen{};
  void add(KernelSpec spec) {
    spec.bias = false;  // fused: Profile keeps points without a bias
    spec.accumulate = false;
    spec.epilogue = {};
    add_whole(std::move(spec));
  }
  void add_whole(KernelSpec spec) {
    auto& same = seen[hash_of(spec)];
    for (std::size_t i : same)
      if (list[i] == spec) return;
    same.push_back(list.size());
    list.push_back(std::move(spec));
  }
};

}  // namespace

std::vector<KernelSpec> kernels_as_run(const CommonPlan& plan, int rank) {
  Specs out;
  for (const ProgramStep& s : compile(plan, rank).steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) out.add_whole(run->spec);
  return out.list;
}

std::vector<KernelSpec> kernels_of(const CommonPlan& plan, int rank) {
  Specs out;
  for (KernelSpec& spec : kernels_as_run(plan, rank)) out.add(std::move(spec));
  return out.list;
}

std::vector<KernelSpec> kernels_fused_and_apart(const PlanData& plan, int rank) {
  PlanData all = plan;
  all.apart.clear();
  Fusions fusions;
  compile(all, rank, &fusions);
  Specs out;
  for (const Fusion& f : fusions.made())
    for (const auto* list : {&f.fused, &f.apart})
      for (const KernelSpec& spec : *list) out.add_whole(spec);
  return out.list;
}

KernelsByRank kernels_tiled(const PlanData& plan, const std::vector<int>& ranks) {
  std::vector<Specs> specs(ranks.size());
  for (int tiles : kTileCounts) {
    PlanData tiled = plan;
    if (!tile_all(tiled, [&](const Hop& hop) { return may_overlap(plan, hop) ? tiles : 0; })) continue;
    const CommonPlan common = tiled;
    for (std::size_t i = 0; i < ranks.size(); i++)
      for (KernelSpec& s : kernels_of(common, ranks[i])) specs[i].add(std::move(s));
  }
  KernelsByRank out;
  for (Specs& one : specs) out.push_back(std::move(one.list));
  return out;
}

namespace {

// Of each convolution, dense layer and pool that follows a cut whose part is to be chosen, at every size of `sizes`.
void add_sizes(Specs& out, const PlanData& data, const Mesh& mesh, const std::vector<Variable>& variables, int rank,
               const SizesOf& sizes) {
  const Passes& passes = data.passes;
  for (const Variable& v : variables)
    for (std::size_t p = 0; p < passes.passes.size(); p++) {
      const Pass& pass = passes.passes[p];
      const PassPlan& plan = data.pass_plans[p];
      const int index = pass.op == KernelOp::map || plan.work.empty() ? -1 : following(data, mesh, pass, plan, v);
      if (index < 0) continue;
      const Work& own = at(plan.work, rank);
      const auto any = std::find_if(plan.work.begin(), plan.work.end(), [](const Work& w) { return w.any; });
      const Box& box = own.any ? own.box : any->box;
      for (Index k : sizes(v))
        for (const Box& one : kernel_boxes(pass, with_part(box, pass, index, v, k)))
          out.add(timed_kernel_of(passes, static_cast<int>(p), one, data.dtype, data.formats).spec);
    }
}

}  // namespace

KernelsByRank needed_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                             const std::vector<int>& ranks, const SizesOf& sizes) {
  const std::vector<Variable> variables = variables_of(passes, mesh, rules);
  const PlanData data = plan_with(passes, mesh, with_parts(rules, mesh, variables, even_parts(variables)), profile, dtype);
  const CommonPlan common = data;
  KernelsByRank out = kernels_tiled(data, ranks);
  for (std::size_t i = 0; i < ranks.size(); i++) {
    Specs specs;
    for (KernelSpec& s : kernels_of(common, ranks[i])) specs.add(std::move(s));
    for (KernelSpec& s : out[i]) specs.add(std::move(s));
    add_sizes(specs, data, mesh, variables, ranks[i], sizes);
    out[i] = std::move(specs.list);
  }
  return out;
}

KernelsByRank candidate_kernels(const Step& step, const Mesh& mesh, const LayoutRules& rules, const std::vector<int>& ranks) {
  const std::vector<LayoutRules> layouts = layouts_to_measure(step, mesh, rules);
  const Index most = layouts.size() == 1 ? kMostSizes : kFewSizes;  // sizes per dim
  std::vector<Specs> specs(ranks.size());
  for (const LayoutRules& layout : layouts) {
    KernelsByRank its = needed_kernels(passes_for(step, layout), mesh, layout, {}, DType::f32, ranks,
                                       [&](const Variable& v) { return candidate_sizes(v.size, most); });
    for (std::size_t i = 0; i < ranks.size(); i++)
      for (KernelSpec& s : its[i]) specs[i].add(std::move(s));
  }
  KernelsByRank out;
  for (Specs& one : specs) out.push_back(std::move(one.list));
  return out;
}

}  // namespace motley
