// SPDX-License-Identifier: Apache-2.0
// Exchanges that go on while kernels run.
#pragma once
#include <motley/program.h>

#include <functional>

namespace motley {

// What runs while an exchange goes on. other_kernels: those of whose passes the Program comes to by then. kernels_ahead: where it has
// to wait, kernels that come behind and need nothing of it go first, up to a send that does.
enum class Meanwhile : std::uint8_t { nothing, other_kernels, kernels_ahead };

// Of the exchanges beside which anything runs: the Post moves up to right behind what makes its sends and last uses the memory it
// receives into, the Wait down to right before the first step that touches what it brings or writes what it sends; packing goes up and
// unpacking down with them. Neither half of the step loses or gains a step. Not where the buffers alive at once would take more
// than `room` times what they take at most before. Pure; before buffers have their places.
void keep_pending(Program& program, const std::function<Meanwhile(const Post&)>& meanwhile, double room);

}  // namespace motley
