// SPDX-License-Identifier: Apache-2.0
// Exchanges that overlap with kernels: of those beside which kernels may run, the Post moves up to right after what makes its sends
// and last uses the memory it receives into, the Wait down to right before the first step that touches what it brings or writes
// what it sends; packing goes up and unpacking down with them. Neither half of the step loses or gains a step.
#pragma once
#include <motley/program.h>

#include <functional>

namespace motley {

// What runs while an exchange is in flight. other_kernels: those of the passes that the Program comes to by then. in_order_of_need:
// also, kernels that its sends do not need come after them (back to a wait), and where it is waited for, kernels that need nothing
// of it come before (up to a send that does).
enum class Beside : std::uint8_t { nothing, other_kernels, in_order_of_need };

// Not where the buffers live at once would take more than `most_memory` times what they take at most before. Pure; before buffers
// have their places.
void overlap(Program& program, const std::function<Beside(const Post&)>& beside, double most_memory);

}  // namespace motley
