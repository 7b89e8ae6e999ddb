// SPDX-License-Identifier: Apache-2.0
// The fields of layout rules and of a Plan's data.
#pragma once
#include "graph/step_fields.h"
#include "kernels/kernel_spec_fields.h"
#include "mesh/mesh_fields.h"
#include "plan/plan_data.h"

namespace motley {

template <>
struct Fields<Shares> {
  static constexpr std::tuple list{field("of", &Shares::of)};
};
template <>
struct Fields<Sizes> {
  static constexpr std::tuple list{field("of", &Sizes::of)};
};
template <>
struct Fields<Jagged> {
  static constexpr std::tuple list{field("of", &Jagged::of), field("per", &Jagged::per)};
};
template <>
struct Fields<Axes> {
  static constexpr std::tuple list{field("names", &Axes::names)};
};
template <>
struct Fields<Rule> {
  static constexpr std::tuple list{field("dim", &Rule::dim), field("axes", &Rule::axes), field("parts", &Rule::parts)};
};
template <>
struct Fields<OpenLayouts> {
  static constexpr std::tuple list{field("everything", &OpenLayouts::everything), field("dims", &OpenLayouts::dims),
                                   field("layers", &OpenLayouts::layers)};
};
template <>
struct Fields<NamedSize> {
  static constexpr std::tuple list{field("name", &NamedSize::name), field("size", &NamedSize::size)};
};
template <>
struct Fields<DeviceOrder> {
  static constexpr std::tuple list{field("axes", &DeviceOrder::axes), field("devices", &DeviceOrder::devices)};
};
template <>
struct Fields<LayoutRules> {
  static constexpr std::tuple list{field("split", &LayoutRules::split),   field("tensors", &LayoutRules::tensors),
                                   field("places", &LayoutRules::places), field("homes", &LayoutRules::homes),
                                   field("open", &LayoutRules::open),     field("arrangement", &LayoutRules::arrangement)};
};
template <>
struct Fields<BalanceOptions> {
  static constexpr std::tuple list{field("dtype", &BalanceOptions::dtype), field("baselines", &BalanceOptions::baselines)};
};
template <>
struct Fields<PickPart> {
  static constexpr std::tuple list{field("index", &PickPart::index), field("cut", &PickPart::cut)};
};
template <>
struct Fields<Work> {
  static constexpr std::tuple list{field("any", &Work::any), field("box", &Work::box), field("alternative", &Work::alternative),
                                   field("partial", &Work::partial)};
};
template <>
struct Fields<PassPlan> {
  static constexpr std::tuple list{field("pick", &PassPlan::pick), field("work", &PassPlan::work),
                                   field("alternative_of", &PassPlan::alternative_of)};
};
template <>
struct Fields<Hop> {
  static constexpr std::tuple list{field("messages", &Hop::messages), field("schedule", &Hop::schedule),
                                   field("tiles", &Hop::tiles)};
};
template <>
struct Fields<TensorPlan> {
  static constexpr std::tuple list{field("layout", &TensorPlan::layout), field("owners", &TensorPlan::owners),
                                   field("home", &TensorPlan::home),     field("readers", &TensorPlan::readers),
                                   field("add", &TensorPlan::add),       field("copy", &TensorPlan::copy),
                                   field("fill", &TensorPlan::fill)};
};
template <>
struct Fields<CutChoice> {
  static constexpr std::tuple list{field("dim", &CutChoice::dim), field("axis", &CutChoice::axis), field("per", &CutChoice::per),
                                   field("parts", &CutChoice::parts), field("why", &CutChoice::why)};
};
template <>
struct Fields<LayerChoice> {
  static constexpr std::tuple list{field("layers", &LayerChoice::layers), field("cut", &LayerChoice::cut),
                                   field("next_best", &LayerChoice::next_best),
                                   field("next_best_seconds", &LayerChoice::next_best_seconds)};
};
template <>
struct Fields<AxesChoice> {
  static constexpr std::tuple list{field("chosen", &AxesChoice::chosen),
                                   field("next_best", &AxesChoice::next_best),
                                   field("seconds", &AxesChoice::seconds),
                                   field("next_best_seconds", &AxesChoice::next_best_seconds),
                                   field("complete_plans", &AxesChoice::complete_plans),
                                   field("dropped", &AxesChoice::dropped)};
};
template <>
struct Fields<IdleDevice> {
  static constexpr std::tuple list{field("rank", &IdleDevice::rank), field("why", &IdleDevice::why),
                                   field("with_it", &IdleDevice::with_it)};
};
template <>
struct Fields<PredictedRank> {
  static constexpr std::tuple list{field("seconds", &PredictedRank::seconds),
                                   field("estimated_seconds", &PredictedRank::estimated_seconds),
                                   field("bytes", &PredictedRank::bytes), field("memory_bytes", &PredictedRank::memory_bytes)};
};
template <>
struct Fields<Baseline> {
  static constexpr std::tuple list{field("even", &Baseline::even), field("proportional", &Baseline::proportional),
                                   field("fast_alone", &Baseline::fast_alone)};
};
template <>
struct Fields<ChosenKernel> {
  static constexpr std::tuple list{field("spec", &ChosenKernel::spec), field("implementation", &ChosenKernel::implementation)};
};
template <>
struct Fields<PlanData> {
  using P = PlanData;
  static constexpr std::tuple list{field("dtype", &P::dtype),
                                   field("rules", &P::rules),
                                   field("passes", &P::passes),
                                   field("pass_plans", &P::pass_plans),
                                   field("tensors", &P::tensors),
                                   field("formats", &P::formats),
                                   field("on_device", &P::on_device),
                                   field("memory_bytes", &P::memory_bytes),
                                   field("busy", &P::busy),
                                   field("hosts", &P::hosts),
                                   field("implementations", &P::implementations),
                                   field("apart", &P::apart),
                                   field("repeats", &P::repeats),
                                   field("cuts", &P::cuts),
                                   field("layout", &P::layout),
                                   field("axes", &P::axes),
                                   field("idle", &P::idle),
                                   field("notes", &P::notes),
                                   field("step_seconds", &P::step_seconds),
                                   field("step_q25", &P::step_q25),
                                   field("step_q75", &P::step_q75),
                                   field("predicted", &P::predicted),
                                   field("baselines", &P::baselines),
                                   field("hash", &P::hash)};
};

}  // namespace motley
