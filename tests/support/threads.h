// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/transport.h>

#include <exception>
#include <mutex>
#include <thread>

// body(transport) on `ranks` threads over memory; the first error ends them all and is thrown here.
inline void on_threads(int ranks, const std::function<void(motley::Transport&)>& body) {
  auto transports = motley::in_memory(ranks);
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&, t = transport.get()] {
      try {
        body(*t);
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        t->abort(motley::Error(motley::Exit::internal, e.what()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}
