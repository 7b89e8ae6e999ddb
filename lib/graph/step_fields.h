// SPDX-License-Identifier: Apache-2.0
// The fields of a Step: everything that determines what is computed.
#pragma once
#include "base/value_fields.h"
#include "graph/passes.h"
#include "kernels/kernel_spec_fields.h"

namespace motley {

template <>
struct Fields<Optimizer> {
  static constexpr std::tuple list{field("kind", &Optimizer::kind),
                                   field("learning_rate", &Optimizer::learning_rate),
                                   field("weight_decay", &Optimizer::weight_decay),
                                   field("decay", &Optimizer::decay),
                                   field("slots", &Optimizer::slots),
                                   field("scalars", &Optimizer::scalars),
                                   field("update", &Optimizer::update),
                                   field("direction", &Optimizer::direction)};
};
template <>
struct Fields<StepTensor> {
  static constexpr std::tuple list{field("name", &StepTensor::name),           field("shape", &StepTensor::shape),
                                   field("dtype", &StepTensor::dtype),         field("role", &StepTensor::role),
                                   field("layer", &StepTensor::layer),         field("of", &StepTensor::of),
                                   field("initial", &StepTensor::initial),     field("deviation", &StepTensor::deviation),
                                   field("below", &StepTensor::below),         field("ignored", &StepTensor::ignored),
                                   field("fed_from", &StepTensor::fed_from),   field("copy_of", &StepTensor::copy_of),
                                   field("decays", &StepTensor::decays),       field("fan_in", &StepTensor::fan_in),
                                   field("shared_by", &StepTensor::shared_by), field("frozen", &StepTensor::frozen)};
};
template <>
struct Fields<PassIndex> {
  static constexpr std::tuple list{field("name", &PassIndex::name), field("size", &PassIndex::size)};
};
template <>
struct Fields<PassOperand> {
  static constexpr std::tuple list{field("tensor", &PassOperand::tensor), field("indices", &PassOperand::indices)};
};
template <>
struct Fields<Window> {
  static constexpr std::tuple list{field("read", &Window::read),     field("made", &Window::made),
                                   field("tap", &Window::tap),       field("stride", &Window::stride),
                                   field("before", &Window::before), field("dilation", &Window::dilation),
                                   field("share", &Window::share)};
};
template <>
struct Fields<IndexMap> {
  static constexpr std::tuple list{field("read", &IndexMap::read), field("made", &IndexMap::made),
                                   field("offset", &IndexMap::offset)};
};
template <>
struct Fields<OwnPart> {
  static constexpr std::tuple list{field("of", &OwnPart::of), field("terms", &OwnPart::terms), field("borders", &OwnPart::borders),
                                   field("per_value", &OwnPart::per_value)};
};
template <>
struct Fields<Pass> {
  static constexpr std::tuple list{field("name", &Pass::name),
                                   field("layer", &Pass::layer),
                                   field("op", &Pass::op),
                                   field("kind", &Pass::kind),
                                   field("indices", &Pass::indices),
                                   field("reads", &Pass::reads),
                                   field("writes", &Pass::writes),
                                   field("windows", &Pass::windows),
                                   field("roles", &Pass::roles),
                                   field("whole", &Pass::whole),
                                   field("formula", &Pass::formula),
                                   field("combine", &Pass::combine),
                                   field("scale", &Pass::scale),
                                   field("causal", &Pass::causal),
                                   field("made", &Pass::made),
                                   field("own", &Pass::own),
                                   field("all_samples", &Pass::all_samples),
                                   field("index_maps", &Pass::index_maps)};
};
template <>
struct Fields<DerivedDim> {
  static constexpr std::tuple list{field("dim", &DerivedDim::dim),     field("of", &DerivedDim::of),
                                   field("size", &DerivedDim::size),   field("of_size", &DerivedDim::of_size),
                                   field("shift", &DerivedDim::shift), field("kind", &DerivedDim::kind)};
};
template <>
struct Fields<Statistic> {
  static constexpr std::tuple list{field("parameter", &Statistic::parameter), field("momentum", &Statistic::momentum)};
};
template <>
struct Fields<Passes> {
  static constexpr std::tuple list{field("tensors", &Passes::tensors),
                                   field("passes", &Passes::passes),
                                   field("parameters", &Passes::parameters),
                                   field("parameter_gradients", &Passes::parameter_gradients),
                                   field("statistics", &Passes::statistics),
                                   field("outputs", &Passes::outputs),
                                   field("derived_dims", &Passes::derived_dims),
                                   field("optimizer", &Passes::optimizer),
                                   field("clips", &Passes::clips),
                                   field("averages", &Passes::averages),
                                   field("accumulate", &Passes::accumulate),
                                   field("trains", &Passes::trains)};
};

}  // namespace motley
