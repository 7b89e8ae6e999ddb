// SPDX-License-Identifier: Apache-2.0
// Synthetic profiles: every kernel at one rate per device, every link equal.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>

#include <random>
#include <vector>

namespace motley::testing {

// Contractions at speed * 10e9 flops per second, other kernels at a fiftieth of that; links, and reads in place, of so many bytes
// per second.
Profile synthetic_profile(const Mesh& mesh, const std::vector<double>& speeds, double bytes_per_second);
// Speeds from 0.03 to 1, each pair's links from 1e7 to 1e10 bytes per second.
Profile random_profile(const Mesh& mesh, std::mt19937& random);

}  // namespace motley::testing
