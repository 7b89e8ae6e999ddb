// SPDX-License-Identifier: Apache-2.0
// Converts weights between the spec's format and the layout that oneDNN picked, by our own loops where these support it: about
// twice as fast as oneDNN's reorder, which takes nearly as long as a small layer's convolution.
#pragma once
#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/cpu/sequence.h"

namespace motley::cpu {

// Adds the step that packs w (forward, backward_data) or unpacks dw (backward_filter), between the spec's format and the packed
// layout, as given by oneDNN.
void add_packing(Sequence& sequence, const KernelSpec& spec, const Vendor& vendor, const dnnl::memory::desc& packed,
                 Sequence::Place given, Sequence::Place packed_place);

}  // namespace motley::cpu
