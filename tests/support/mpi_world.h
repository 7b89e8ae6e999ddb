// SPDX-License-Identifier: Apache-2.0
// For tests that mpiexec starts on several ranks (linked with mpi_main).
#pragma once
#include <motley/transport.h>

// All ranks. Every rank runs the same test cases in the same order; when one fails in a
// case, all end after it.
motley::Transport& world();
