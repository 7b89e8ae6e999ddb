// SPDX-License-Identifier: Apache-2.0
// What a kind of device must be able to do.
#pragma once
#include <motley/device.h>
#include <motley/kernel_spec.h>

#include <memory>
#include <span>
#include <string>

namespace motley {

// One kernel, compiled once, run many times, no allocation in run().
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual std::string implementation() const = 0;  // e.g. "jit:avx512_core", "motley:avx2", "reference"
  // operands: as the spec orders them, element 0 of each (64-byte aligned only where the spec is dense conv/dense/pool).
  virtual void run(std::span<void* const> operands, void* workspace) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Kernel> compile(const KernelSpec& spec) = 0;  // DeviceError: what this device cannot do
  virtual std::string model() const = 0;    // "AMD EPYC ..."
  virtual std::string isa() const = 0;      // what is really used, as the library reports it
  virtual std::string library() const = 0;  // "oneDNN 2.6.3"
  virtual int threads() const = 0;
  virtual Index memory_bytes() const = 0;   // limit of the device
  virtual bool repeats() const { return false; }  // kernels may run more than once (emulated): in-place ones are not repeated
};

// The device's backend. Caps the ISA and the threads of this process first thing, so call it before any vendor call, once.
// DeviceError: the device is not here, the ISA name is unknown or could not be set.
std::unique_ptr<Backend> open_backend(const Device& device);
// Plain loops, f32 and f64, any spec: the truth that every backend is held against.
std::unique_ptr<Backend> reference_backend();

}  // namespace motley
