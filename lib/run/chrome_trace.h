// SPDX-License-Identifier: Apache-2.0
// A RunTrace in the format that chrome://tracing and ui.perfetto.dev read ("Trace Event Format", JSON object form).
#pragma once
#include <string>

#include "run/run_trace.h"

namespace motley {

// Two processes per rank, "rank 0 measured" and "rank 0 simulated" (none without a profile); ts and dur in microseconds from the
// first measured event. Simulated step k begins where the first rank begins measured step k; a simulated step that lasts longer
// than the measured one continues beside the next one, on a separate track. Exchanges by message, which are in flight while other
// steps run, are asynchronous events from their post to the end of their wait; a device's kernels have a separate track.
std::string chrome_trace(const RunTrace& trace);

}  // namespace motley
