// SPDX-License-Identifier: Apache-2.0
// What each command does, after the command line is parsed. Errors are thrown; the exit code is returned.
#pragma once
#include "app/options.h"

namespace motley::app {

struct CommandLine {
  int argc = 0;
  char** argv = nullptr;
};

int doctor(const Options& options);
int check(const Options& options);
int trace(const Options& options);
int report(const Options& options);
int schema(const Options& options);
int model(const Options& options);
int convert(const Options& options);
// profile, plan, explain, train, eval, predict, verify: start ranks if they need them, or are a rank (under the user's own mpiexec
// or srun).
int with_ranks(const Options& options, const CommandLine& line);
// A rank that the launcher started.
int rank_main(const Options& options, const CommandLine& line);

}  // namespace motley::app
