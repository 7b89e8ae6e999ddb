// SPDX-License-Identifier: Apache-2.0
// Activations as a layer's last part (the model file's "activation" key).
#pragma once
#include <motley/kernel_spec.h>
#include <motley/ops.h>

namespace motley {

// y = activation(x). x becomes "<layer>.linear", y takes the layer's name.
Tensor activate(const Tensor& x, Activation activation);
// The op itself under a name.
Tensor activation_of(const Tensor& x, Activation activation, const std::string& name);

}  // namespace motley
