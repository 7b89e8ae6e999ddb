// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#include "base/units.h"

#include <catch2/catch.hpp>

using namespace motley;

TEST_CASE("seconds, from microseconds to more hours than there are") {
  CHECK(seconds_text(12e-6) == "12 us");
  CHECK((price_text(1.041) == "+4.1 %" && price_text(0.9) == "-10.0 %"));
  CHECK((price_text(1) == "equal to 0.1 %" && price_text(1.0004) == "equal to 0.1 %" && price_text(1.0006) == "+0.1 %"));
  CHECK(seconds_text(0.0123) == "12.3 ms");
  CHECK(seconds_text(4.2) == "4.2 s");
  CHECK(seconds_text(119.7) == "2 min 0 s");
  CHECK(seconds_text(200) == "3 min 20 s");
  CHECK(seconds_text(5 * 3600 + 20 * 60) == "5 h 20 min");
  CHECK(seconds_text(1e300) == "2.78e+296 h");
}

TEST_CASE("bytes in thousands") {
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1.2e6) == "1.2 MB");
  CHECK(bytes_text(999.9e3) == "999.9 kB");
  CHECK(bytes_text(999999) == "1.0 MB");
  CHECK(bytes_text(2e15) == "2000.0 TB");
}
