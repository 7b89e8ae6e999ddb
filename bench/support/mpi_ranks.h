// SPDX-License-Identifier: Apache-2.0
// Benches that start themselves under mpiexec.
#pragma once
#include <motley/transport.h>

#include <functional>
#include <string>
#include <vector>

namespace motley::bench {

std::string own_path();
int run_mpiexec(std::vector<std::string> words);  // its exit code. UserError: it cannot be started
bool stay_on_core(std::size_t k);                 // the k-th that this process may use; false: there are fewer
// What a started rank does; an error ends all ranks.
int on_rank(const char* name, int argc, char** argv, const std::function<void(Transport&)>& work);

}  // namespace motley::bench
