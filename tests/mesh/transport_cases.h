// SPDX-License-Identifier: Apache-2.0
// What every transport must do. Each case is run by all ranks at once; one that fails throws.
#pragma once
#include <motley/transport.h>

#include <utility>
#include <vector>

using TransportCase = std::pair<const char*, void (*)(motley::Transport&)>;
const std::vector<TransportCase>& transport_cases();
