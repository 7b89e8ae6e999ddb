// SPDX-License-Identifier: Apache-2.0
// How long things take: measured points, and estimates from them.
#pragma once
#include <motley/kernel_spec.h>

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

namespace motley {

struct Spread {
  double min = 0, q25 = 0, median = 0;  // seconds
  int n = 0;
  double typical() const { return median; }  // what predictions take: a run reports the median of its steps too
  bool operator==(const Spread&) const = default;
};

enum class Known : std::uint8_t { measured, interpolated, modelled };
struct Estimate {
  double seconds = 0;
  Known known = Known::modelled;
};

// What was measured, so that a profile of another device is refused; and how much the other ranks of its host slow it down:
// kernels are measured while all of them compute.
struct DeviceFacts {
  std::string name{}, kind{}, model{}, isa{}, library{}, host{};
  int threads = 1;
  double alone_over_shared = 1;  // seconds of its large kernels while the others rest, over those while they compute
  double slow = 1, fast = 1;     // quartiles of its speed while it was measured: what kernels took beside what they usually take
  bool operator==(const DeviceFacts&) const = default;
};

struct KernelPoint {
  int device = 0;  // index into devices
  KernelSpec spec{};
  Spread seconds{};
  std::string implementation{};
  int choices = 1;  // implementations that were timed; this is the fastest
};

// Time of one message: seconds + bytes / bytes_per_second of the first segment that reaches its size (the last: any size).
struct LinkSegment {
  Index bytes_up_to = 0;
  double seconds = 0, bytes_per_second = 0;
};
// in_place: where the two share a host's memory, what reading in place costs beyond reading what the reader wrote itself: bytes that
// rank `from` has just written, read by a kernel of rank `to`. Empty: not measured.
struct Link {
  int from = 0, to = 0;
  std::vector<LinkSegment> segments{}, in_place{};
};

// A copy between the host's pinned memory and the memory of a rank's device, each way.
struct DeviceLink {
  int device = 0;
  std::vector<LinkSegment> to_device{}, from_device{};
};
// Messages from and to such memory go in pieces of so many bytes: one is copied while the one before it travels.
inline constexpr Index kStagedBytes = Index{1} << 20;

class Profile {
 public:
  static Profile load(const std::filesystem::path& file);  // UserError with file, line, column
  static Profile parse(const std::string& name, const std::string& text);
  std::string json() const;
  void save(const std::filesystem::path& file) const;  // beside, sync, rename
  // Adds or replaces. Of several points of one (device, spec) the one with the smaller median is kept. A bias and an activation of a
  // convolution or dense layer are left out of the spec, but where there was a choice: such a point tells implementation() alone.
  void add(KernelPoint point);
  // The fastest of those timed for this very spec, bias and activation included; empty: there was no choice.
  std::string implementation(int device, const KernelSpec& spec) const;
  // measured: this very spec. interpolated: the same spec but for one extent: channels and filters on this device's granule
  // (a step function: the smallest measured size not below), samples on a line; past the last one linear in flops. modelled: the device's best measured rate of that op
  // and pass, else 1e9 flops per second.
  Estimate seconds(int device, const KernelSpec& spec) const;
  // From where it lies to where it is read: copied out of a device's own memory, sent, copied into the other's, piece by piece.
  Estimate seconds(int from, int to, Index bytes) const;
  Estimate wire_seconds(int from, int to, Index bytes) const;  // a link that was not measured: 5 us + 2e9 bytes per second, modelled
  // The part of a kernel's time that it takes because a rank of the same host has just written these bytes. Not measured: 10e9 bytes
  // per second (two cores of one server CPU, bench/exchange), modelled.
  Estimate in_place_seconds(int from, int to, Index bytes) const;
  double to_device_seconds(int device, Index bytes) const;     // 0: it works in the host's memory
  double from_device_seconds(int device, Index bytes) const;
  bool empty() const { return kernels_.empty(); }
  const std::vector<KernelPoint>& kernels() const { return kernels_; }
  std::vector<DeviceFacts> devices{};
  std::vector<Link> links{};
  std::vector<DeviceLink> device_links{};
  std::vector<std::string> notes{};  // "contended", "drifting", "batch scaled from 32", for people

 private:
  struct FamilyPoint {
    Index extent = 0;       // of the one role that varies; a fold's or update's elements
    std::size_t point = 0;  // index into kernels_
  };
  double between(const FamilyPoint* below, const FamilyPoint& above, Index samples) const;
  const KernelPoint* find(int device, const KernelSpec& spec) const;
  const Link* link(int from, int to) const;  // nullptr: none
  void add_to_families(std::size_t point);
  std::vector<KernelPoint> kernels_{};
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash_{};    // (device, spec) -> points
  std::unordered_map<std::size_t, std::vector<FamilyPoint>> by_family_{};  // (device, spec without one extent), extents ascending
  std::unordered_map<std::size_t, double> flops_per_second_{};             // (device, op, pass, dtype) -> the best measured
};

}  // namespace motley
