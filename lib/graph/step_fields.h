// SPDX-License-Identifier: Apache-2.0
// The fields of a Step: all that decides what is computed.
#pragma once
#include "base/value_fields.h"
#include "graph/passes.h"

namespace motley {

template <>
struct Fields<Sgd> {
  static constexpr std::tuple list{field("learning_rate", &Sgd::learning_rate), field("momentum", &Sgd::momentum),
                                   field("weight_decay", &Sgd::weight_decay)};
};
template <>
struct Fields<StepTensor> {
  static constexpr std::tuple list{field("name", &StepTensor::name),   field("shape", &StepTensor::shape),
                                   field("dtype", &StepTensor::dtype), field("role", &StepTensor::role),
                                   field("layer", &StepTensor::layer), field("of", &StepTensor::of)};
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
                                   field("before", &Window::before), field("dilation", &Window::dilation)};
};
template <>
struct Fields<Tie> {
  static constexpr std::tuple list{field("read", &Tie::read), field("made", &Tie::made), field("offset", &Tie::offset)};
};
template <>
struct Fields<Pass> {
  static constexpr std::tuple list{
      field("name", &Pass::name),       field("layer", &Pass::layer),     field("op", &Pass::op),
      field("kind", &Pass::kind),       field("indices", &Pass::indices), field("reads", &Pass::reads),
      field("writes", &Pass::writes),   field("windows", &Pass::windows), field("roles", &Pass::roles),
      field("whole", &Pass::whole),     field("fold", &Pass::fold),       field("activation", &Pass::activation),
      field("combine", &Pass::combine), field("scale", &Pass::scale),     field("class_index", &Pass::class_index),
      field("ties", &Pass::ties)};
};
template <>
struct Fields<Heir> {
  static constexpr std::tuple list{field("dim", &Heir::dim),         field("of", &Heir::of),       field("size", &Heir::size),
                                   field("of_size", &Heir::of_size), field("shift", &Heir::shift), field("kind", &Heir::kind)};
};
template <>
struct Fields<Passes> {
  static constexpr std::tuple list{field("tensors", &Passes::tensors),
                                   field("passes", &Passes::passes),
                                   field("parameters", &Passes::parameters),
                                   field("parameter_gradients", &Passes::parameter_gradients),
                                   field("outputs", &Passes::outputs),
                                   field("heirs", &Passes::heirs),
                                   field("loss", &Passes::loss),
                                   field("logits", &Passes::logits),
                                   field("label", &Passes::label),
                                   field("optimizer", &Passes::optimizer),
                                   field("trains", &Passes::trains)};
};

}  // namespace motley
