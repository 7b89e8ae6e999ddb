// SPDX-License-Identifier: Apache-2.0
// Which of oneDNN's implementations computes a pass of a convolution, and in which layouts.
#pragma once
#include <string>

#include "kernels/cpu/dnnl_kernels.h"

namespace motley::cpu {

struct Choice {
  dnnl::primitive primitive{};
  dnnl::memory::desc x{}, w{}, y{}, scratchpad{};  // x, w, y or their gradients as the primitive takes them
  std::string implementation{};
};

dnnl::memory::dims dims_of_y(const KernelSpec& spec);
dnnl::memory::dims dims_of_w(const KernelSpec& spec);  // f c r s; with groups g f c r s
dnnl::memory::desc desc_of_w(const KernelSpec& spec);  // in the spec's format
dnnl::memory::format_tag tag_of(Format format);
dnnl::memory::desc desc_of_x(const KernelSpec& spec, const dnnl::memory::dims& dims, dnnl::memory::format_tag tag);
dnnl::memory::desc desc_of_y(const KernelSpec& spec, dnnl::memory::format_tag tag);
dnnl::memory::desc desc_of_bias(const KernelSpec& spec);

// x: the extents of x that oneDNN is given, in any format; the spec's formats are used where oneDNN is fast in them. Computed from
// the spec and the ISA alone: the same spec gives the same bits in every run. dnnl::error: there is no implementation.
Choice choose_convolution(const KernelSpec& spec, const Vendor& vendor, const dnnl::memory::dims& x, const vendor::Window& window);

}  // namespace motley::cpu
