// SPDX-License-Identifier: Apache-2.0
#include "run/each_alone.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "mesh/control.h"
#include "run/agreed.h"

namespace motley {

namespace {

constexpr double kSecondsBetween = 0.25;  // seconds from one meeting to the next, at least

enum class Doing : std::uint8_t { working, done, failed };

// One meeting is always open: its messages are in flight while a rank works, so that ranks that work do not wait for each other.
class Meetings {
 public:
  explicit Meetings(Transport& transport) : transport_(transport) { begin(Doing::working); }
  // Ends the open meeting: what each rank was doing when it began.
  std::vector<Doing> end() {
    std::vector<Doing> all;
    for (const control::Gathering::Frame& frame : open_->finish("meeting ranks that work alone"))
      all.push_back(static_cast<Doing>(frame.bytes.front()));
    return all;
  }
  void begin(Doing mine) {
    const auto byte = static_cast<std::byte>(mine);
    open_.emplace(transport_, control::kMeeting, std::span(&byte, 1), 1);
  }

 private:
  Transport& transport_;
  std::optional<control::Gathering> open_{};
};

bool any(const std::vector<Doing>& all, Doing one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

struct OtherFailed {};

}  // namespace

void each_alone(Runtime& rt, const std::string& doing, const std::function<void(const Alive& alive)>& work) {
  agreed(rt.transport(), [&] {
    Meetings meetings(rt.transport());
    double last = seconds_now();
    const Alive alive = [&](const char* what) {
      if (seconds_now() - last < kSecondsBetween) return;
      rt.phase(doing + what);
      if (any(meetings.end(), Doing::failed)) {
        meetings.begin(Doing::failed);
        throw OtherFailed{};
      }
      meetings.begin(Doing::working);
      last = seconds_now();
    };
    bool stopped = false;
    const std::optional<Error> error = error_of([&] {
      try {
        work(alive);
      } catch (const OtherFailed&) {
        stopped = true;
      }
    });
    if (!stopped) {
      static_cast<void>(meetings.end());
      meetings.begin(error ? Doing::failed : Doing::done);
    }
    while (any(meetings.end(), Doing::working)) meetings.begin(error || stopped ? Doing::failed : Doing::done);
    if (error) throw *error;
  });
}

}  // namespace motley
