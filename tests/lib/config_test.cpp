// SPDX-License-Identifier: Apache-2.0
// What users write in files: what is right is read, what is wrong is said at its place.
#include <catch2/catch.hpp>

#include "config/check.h"
#include "config/job.h"
#include "lib/config_support.h"

using namespace motley;
TEST_CASE("scratch") {
  for (const char* f : {"paper_mnist", "paper_cifar", "quickstart", "vgg11"}) {
    auto r = check_files({std::string("configs/jobs/") + f + ".json"});
    WARN(r.report << r.complaints);
  }
}
