// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who computes which box in which pass, who owns what, which messages run, and why.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>
#include <motley/step.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup planning
/// @{

/// How much of a plan of many ranks is printed.
enum class PlanDetail : std::uint8_t { summary, full };

struct BalanceOptions;
struct PlanData;  // lib/plan/plan_data.h

/// Immutable; a pure function of (step, mesh, rules, profile): same values, same plan.
class Plan {
 public:
  const Step& step() const { return step_; }  ///< the step that is planned
  const Mesh& mesh() const { return mesh_; }  ///< the mesh that it is planned for
  const PlanData& data() const;               ///< for the code that runs the plan. UserError: it was moved from
  /// Human-readable: cuts, predicted seconds, idle share and bytes per rank, why, second best. A summary has at most 16 ranks and
  /// 24 exchanges, and fits 120 columns, its notes aside.
  std::string table(PlanDetail detail = PlanDetail::summary) const;
  /// The same with the seconds of each layer, by the profile that the plan was made with: the 20 slowest, or all.
  std::string table(const Profile& profile, PlanDetail detail = PlanDetail::summary) const;
  /// What `motley plan --format json` prints but for the seconds of each layer, byte-equal from run to run. A summary of a plan for
  /// more than 16 ranks has no "tensors" and "exchanges".
  std::string json(PlanDetail detail = PlanDetail::full) const;
  /// Writes the choices of balance(), for load(). UserError (74): the file cannot be written.
  void save(const std::filesystem::path& file) const;
  /// A fixed plan, from the file of save() or a run's plan.json: nothing is measured or chosen. UserError: another step, the file
  /// of an older motley, a mesh with other axes or devices, parts that do not fit, a file that cannot be read (66).
  static Plan load(const std::filesystem::path& file, const Step& step, const Mesh& mesh);
  /// Which rank stores which boxes of each parameter: the LayoutRules::homes of another plan that runs on the same State (an
  /// evaluation, a prediction, another batch).
  std::map<std::string, std::vector<Shard>> homes() const;
  /// Of (step, mesh, rules, options): ranks compare it before they run the plan. That of a loaded plan, whose rules have all parts,
  /// may differ from that of the plan which was saved: load on all ranks or on none.
  std::uint64_t hash() const;

 private:
  friend Plan plan_from(const Step&, const Mesh&, PlanData);  // lib/plan/planner.h
  Plan(Step step, Mesh mesh, std::shared_ptr<const PlanData> data)
      : step_(std::move(step)), mesh_(std::move(mesh)), data_(std::move(data)) {}
  Step step_;
  Mesh mesh_;
  std::shared_ptr<const PlanData> data_;
};

/// The rules without those for dims, tensors and layers that the step does not have: for a step that is only a part of the network
/// that the rules were written for, such as its inference.
LayoutRules rules_within(const Step& step, LayoutRules rules);

/// Options of balance(). Every field has a default.
struct BalanceOptions {
  DType dtype = DType::f32;  ///< of every float tensor
  bool baselines = true;  ///< whether to predict also the time of other parts under the same rules and of the fastest device alone
};

/// Chooses who computes, stores and sends what. Pure: no rank, no file. Without a profile (empty): parts "profile" fall back to
/// even, predicted seconds are unknown, a rank's speed is its share of the parts, a byte costs 50 flops of the fastest rank.
/// @throws UserError rules that do not fit the step or the mesh; memory that does not suffice (69)
Plan balance(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
             const BalanceOptions& options = {});

/// @}
}  // namespace motley
