// SPDX-License-Identifier: Apache-2.0
// mpiexec's side of a launch: the command, its environment, and its output. Pure except for reading PATH.
#pragma once
#include <motley/device.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace motley {

// True if no device names a host.
bool on_one_host(const std::vector<Device>& devices);

// mpiexec.mpich, else mpiexec, by PATH. DeviceError says how to install it.
std::filesystem::path find_mpiexec();

// The cores of each device: those it names, else `threads` of those that no device names, in turn. Devices on other hosts that name
// none get none (an empty list).
std::vector<std::vector<int>> deal_cores(const std::vector<Device>& devices, const std::vector<int>& allowed);

struct RankCommand {
  std::vector<std::string> program{};  // with its arguments; none may be exactly ":", mpiexec's separator
  std::filesystem::path records{};
  std::vector<int> allowed_cores{};
};
// An MPMD command line: one block per device.
std::vector<std::string> mpiexec_arguments(const std::filesystem::path& mpiexec, const std::vector<Device>& devices,
                                           const RankCommand& command);

// This process's environment for mpiexec, without what another process manager left in it. With several hosts the user's HYDRA_...
// variables are kept: they say how mpiexec gets there.
std::vector<std::string> clean_environment(const std::vector<Device>& devices);

// Passes on stdout, line by line, without mpiexec's "BAD TERMINATION" banner and the empty line before it.
class BannerFilter {
 public:
  std::string pass(std::string_view text);  // returns what may be printed by now
  std::string rest();                       // at the end
  // The signal that ended a rank, as given in the banner: "Killed (signal 9)". Empty: none in the text so far.
  const std::string& signal() const { return signal_; }

 private:
  std::string line_, held_;  // held: lines that may be the banner's beginning
  std::string signal_;
  bool in_banner_ = false;
};

// Passes on stderr at once (a progress line has no end), without the messages of mpiexec and its helpers about themselves: after a
// rank's death they fail with messages that name everything but that rank.
class NoiseFilter {
 public:
  std::string pass(std::string_view text);
  std::string rest();
  const std::string& noise() const { return noise_; }  // the lines left out; at most 4 KiB

 private:
  enum class At { begin, inside, noise };
  At at_ = At::begin;
  std::string begin_, noise_;
};

}  // namespace motley
