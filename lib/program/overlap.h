// SPDX-License-Identifier: Apache-2.0
// Exchanges that overlap with kernels. For an exchange beside which kernels may run, the Post moves up to right after the steps
// that make its sends and last use the memory it receives into, and the Wait moves down to right before the first step that uses
// what it receives or writes what it sends; packing moves up and unpacking down with them. No step crosses a border of the Program:
// the halves of a micro-batch, the sums over all of them, the update, the moves run at different times.
#pragma once
#include <motley/program.h>

#include <functional>

namespace motley {

// What runs while an exchange is in flight. other_kernels: kernels of the passes that come next in the Program anyway.
// in_order_of_need: in addition, kernels that its sends do not need are moved after the Post (back to a wait), and where it is
// waited for, kernels that do not need it are moved before the Wait (up to a send that does).
enum class Beside : std::uint8_t { nothing, other_kernels, in_order_of_need };

// Not where the buffers that live at once would take more than `most_memory` times their maximum before. Pure; runs before buffers
// have their places.
void overlap(Program& program, const std::function<Beside(const Post&)>& beside, double most_memory);

}  // namespace motley
