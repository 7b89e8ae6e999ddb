// SPDX-License-Identifier: Apache-2.0
// Weights between the spec's format and the layout that oneDNN picked, by our own loops where they know it: about twice as fast
// as oneDNN's reorder, which a small layer's convolution is not much slower than.
#pragma once
#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/cpu/sequence.h"

namespace motley::cpu {

// Adds the step that packs w (forward, backward_data) or unpacks dw (backward_filter): given in the spec's format, packed as oneDNN
// says.
void add_packing(Sequence& sequence, const KernelSpec& spec, const Vendor& vendor, const dnnl::memory::desc& packed,
                 Sequence::Place given, Sequence::Place packed_place);

}  // namespace motley::cpu
