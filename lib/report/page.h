// SPDX-License-Identifier: Apache-2.0
// One page about one or several runs: HTML and SVG in one file, without scripts and without anything from elsewhere.
#pragma once
#include <string>
#include <vector>

#include "report/reported_run.h"

namespace motley {

// How the page begins: by this a page is known.
constexpr const char* kPageStart = "<!doctype html><!--motley-->";

std::string report_page(const std::vector<ReportedRun>& runs);

}  // namespace motley
