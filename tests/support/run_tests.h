// SPDX-License-Identifier: Apache-2.0
#pragma once

// Catch2's command line: 0 if every test case passed.
int run_tests(int argc, char** argv);
