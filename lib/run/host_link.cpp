// SPDX-License-Identifier: Apache-2.0
#include "run/host_link.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace motley {

namespace {

constexpr std::size_t kMostAddresses = 16;
constexpr std::uint32_t kMostBytes = 64U << 20U;  // of a frame: 16,384 full records
constexpr std::size_t kNumbers = offsetof(Record, host);

struct Head {
  std::uint64_t token = 0;
  std::uint32_t host = 0, bytes = 0;  // bytes: size of what follows
};

// A child of fork() would keep a dead process's connections open, so it closes them.
struct OpenLinks {
  std::mutex mutex{};  // held while the process forks
  std::vector<int> files{};
};

OpenLinks& links_of_this_process() {
  static OpenLinks all;
  return all;
}

void before_fork() {
  links_of_this_process().mutex.lock();
}

void after_fork() {
  links_of_this_process().mutex.unlock();
}

void close_in_child() {
  for (const int fd : links_of_this_process().files) ::close(fd);
  after_fork();
}

void remember(int fd) {
  OpenLinks& links = links_of_this_process();
  static const int registered = pthread_atfork(before_fork, after_fork, close_in_child);
  const std::lock_guard lock(links.mutex);
  if (registered == 0) links.files.push_back(fd);
}

void forget(int fd) {
  OpenLinks& links = links_of_this_process();
  const std::lock_guard lock(links.mutex);
  std::erase(links.files, fd);
}

void put(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  to.insert(to.end(), at, at + bytes);
}

template <std::size_t N>
void put_text(std::vector<std::byte>& to, const char (&text)[N]) {
  const auto length = static_cast<std::uint16_t>(strnlen(text, N));
  put(to, &length, sizeof length);
  put(to, text, length);
}

bool take(std::span<const std::byte>& from, void* to, std::size_t bytes) {
  if (from.size() < bytes) return false;
  std::memcpy(to, from.data(), bytes);
  from = from.subspan(bytes);
  return true;
}

template <std::size_t N>
bool take_text(std::span<const std::byte>& from, char (&text)[N]) {
  std::uint16_t length = 0;
  std::memset(text, 0, N);
  return take(from, &length, sizeof length) && length < N && take(from, text, length);
}

bool take_record(std::span<const std::byte>& from, Record& r) {
  return take(from, &r, kNumbers) && take_text(from, r.host) && take_text(from, r.device) && take_text(from, r.phase) &&
         take_text(from, r.what) && take_text(from, r.reason);
}

class Patience {
 public:
  explicit Patience(double seconds)
      : until_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  int ms_left() const {
    return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now()).count()));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point until_;
};

void without_delay(int fd) {
  const int yes = 1;
  static_cast<void>(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));  // without it later beats do no harm
}

// A socket that is connecting; -1: none.
int socket_of(const HostAddress& address) {
  sockaddr_in plain{.sin_family = AF_INET, .sin_port = address.sin6_port, .sin_addr = {}, .sin_zero = {}};
  std::memcpy(&plain.sin_addr, &address.sin6_addr.s6_addr[12], sizeof plain.sin_addr);
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&address.sin6_addr);
  const int fd = ::socket(mapped ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  without_delay(fd);
  const auto* const to = mapped ? reinterpret_cast<const sockaddr*>(&plain) : reinterpret_cast<const sockaddr*>(&address);
  if (::connect(fd, to, mapped ? sizeof plain : sizeof address) == 0 || errno == EINPROGRESS) return fd;
  ::close(fd);
  return -1;
}

// Listens at a port that the system chooses, for both address families if there are two. Returns the port in network byte order; 0:
// none.
std::uint16_t listen_at(int fd, int family) {
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int no = 0;
  if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0) return 0;
  if (::bind(fd, address, length) != 0 || ::listen(fd, SOMAXCONN) != 0 || getsockname(fd, address, &length) != 0) return 0;
  return family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port : reinterpret_cast<sockaddr_in*>(&any)->sin_port;
}

}  // namespace

HostLink::HostLink(HostLink&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      token_(other.token_),
      host_(other.host_),
      known_(other.known_),
      going_(std::move(other.going_)),
      come_(std::move(other.come_)) {}

HostLink& HostLink::operator=(HostLink&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(token_, other.token_);
  std::swap(host_, other.host_);
  std::swap(known_, other.known_);
  std::swap(going_, other.going_);
  std::swap(come_, other.come_);
  return *this;
}

void HostLink::close() {
  if (fd_ < 0) return;
  forget(fd_);
  ::close(fd_);
  fd_ = -1;
}

void HostLink::flush() {
  while (open() && !going_.empty()) {
    const ssize_t n = ::send(fd_, going_.data(), going_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return;
    if (n < 0) return;  // receive() notices that it is closed, after what has arrived before
    going_.erase(going_.begin(), going_.begin() + n);
  }
}

void HostLink::send(std::uint32_t host, std::span<const Record> records) {
  flush();
  if (!open() || !going_.empty()) return;
  going_.resize(sizeof(Head));
  for (const Record& r : records) {
    put(going_, &r, kNumbers);
    put_text(going_, r.host);
    put_text(going_, r.device);
    put_text(going_, r.phase);
    put_text(going_, r.what);
    put_text(going_, r.reason);
  }
  const Head head{token_, host, static_cast<std::uint32_t>(going_.size() - sizeof(Head))};
  std::memcpy(going_.data(), &head, sizeof head);
  flush();
}

bool HostLink::take_frame(std::vector<Record>& out) {
  Head head;
  if (come_.size() < sizeof head) return false;
  std::memcpy(&head, come_.data(), sizeof head);
  if (head.token != token_ || head.bytes > kMostBytes) {
    close();
    return false;
  }
  if (come_.size() < sizeof head + head.bytes) return false;
  std::span<const std::byte> body(come_.data() + sizeof head, head.bytes);
  while (!body.empty()) {
    Record r;
    if (!take_record(body, r)) {
      close();
      return false;
    }
    out.push_back(r);
  }
  host_ = head.host;
  come_.erase(come_.begin(), come_.begin() + static_cast<std::ptrdiff_t>(sizeof head + head.bytes));
  return true;
}

std::vector<Record> HostLink::receive() {
  std::vector<Record> out;
  std::array<std::byte, 65536> block{};
  bool over = false;
  while (open() && !over) {
    const ssize_t n = ::recv(fd_, block.data(), known_ ? block.size() : sizeof(Head) - come_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) break;
    if (n <= 0)
      over = true;
    else
      put(come_, block.data(), static_cast<std::size_t>(n));
    if (!known_ && come_.size() == sizeof(Head)) {
      Head head;
      std::memcpy(&head, come_.data(), sizeof head);
      known_ = head.token == token_;
      over = over || !known_;
    }
  }
  while (open() && take_frame(out)) {
  }
  if (over) close();
  flush();
  return out;
}

HostListener::HostListener() {
  for (const int family : {AF_INET6, AF_INET}) {
    fd_ = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) continue;
    port_ = listen_at(fd_, family);
    if (port_ != 0) return;
    ::close(std::exchange(fd_, -1));
  }
}

HostListener::~HostListener() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<HostAddress> HostListener::addresses() const {
  std::vector<HostAddress> out, loopback;
  ifaddrs* all = nullptr;
  if (port_ == 0 || getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    HostAddress address{};
    address.sin6_family = AF_INET6;
    if (one->ifa_addr->sa_family == AF_INET6) {
      address.sin6_addr = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) continue;  // useless without the other end's interface
    } else if (one->ifa_addr->sa_family == AF_INET) {
      address.sin6_addr.s6_addr[10] = address.sin6_addr.s6_addr[11] = 0xff;
      std::memcpy(&address.sin6_addr.s6_addr[12], &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, 4);
    } else {
      continue;
    }
    address.sin6_port = port_;
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : out).push_back(address);
  }
  freeifaddrs(all);
  out.insert(out.end(), loopback.begin(), loopback.end());
  out.resize(std::min(out.size(), kMostAddresses));
  return out;
}

std::vector<HostLink> HostListener::accept(std::size_t hosts, std::uint64_t token, double patience_seconds) {
  constexpr std::size_t kMostUnknown = 64;
  constexpr auto kUnknownFor = std::chrono::seconds(1);
  struct Unknown {
    HostLink link;
    std::chrono::steady_clock::time_point since;
  };
  std::vector<HostLink> here;
  std::deque<Unknown> unknown;
  for (std::size_t h = 0; h < hosts; h++) here.emplace_back(-1, token);
  const Patience patience(patience_seconds);
  for (std::size_t missing = hosts - 1; missing > 0 && port_ != 0;) {
    std::vector<pollfd> files{{fd_, POLLIN, 0}};
    for (const Unknown& one : unknown) files.push_back({one.link.fd(), POLLIN, 0});
    if (patience.ms_left() == 0) break;
    const auto now = std::chrono::steady_clock::now();
    const int most_ms = unknown.empty() ? patience.ms_left() : std::min(patience.ms_left(), 100);
    static_cast<void>(::poll(files.data(), files.size(), most_ms));
    while (!unknown.empty() && now - unknown.front().since > kUnknownFor) unknown.pop_front();
    for (int fd = -1; (fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      without_delay(fd);
      remember(fd);
      unknown.push_back({HostLink(fd, token), now});
      if (unknown.size() >= kMostUnknown) break;  // who has introduced himself is taken out before others are accepted
    }
    std::deque<Unknown> still;
    for (auto& [link, since] : unknown) {
      static_cast<void>(link.receive());
      if (!link.open()) continue;
      const auto host = static_cast<std::size_t>(std::max<std::int64_t>(0, link.heard_of()));
      if (host == 0 || host >= hosts || here[host].open()) {
        if (link.heard_of() < 0) still.push_back({std::move(link), since});
        continue;
      }
      link.send(0, {});  // the answer
      here[host] = std::move(link);
      missing--;
    }
    std::swap(unknown, still);
    if (unknown.size() >= kMostUnknown) unknown.pop_front();
  }
  return here;
}

HostLink reach(std::span<const HostAddress> addresses, std::uint32_t host, std::uint64_t token, double patience_seconds) {
  const Patience patience(patience_seconds);
  std::vector<HostLink> tries;
  for (const HostAddress& address : addresses)
    if (const int fd = socket_of(address); fd >= 0) {
      remember(fd);
      tries.emplace_back(fd, token);
    }
  std::vector<bool> greeted(tries.size(), false);
  for (;;) {
    std::vector<pollfd> files;
    for (std::size_t i = 0; i < tries.size(); i++)
      files.push_back({tries[i].fd(), static_cast<short>(greeted[i] ? POLLIN : POLLOUT), 0});  // closed ones (-1) are skipped
    if (std::none_of(tries.begin(), tries.end(), [](const HostLink& link) { return link.open(); })) break;
    if (patience.ms_left() == 0 || ::poll(files.data(), files.size(), patience.ms_left()) == 0) break;
    for (std::size_t i = 0; i < tries.size(); i++) {
      if (files[i].revents == 0) continue;
      if (!greeted[i]) tries[i].send(host, {});
      greeted[i] = true;
      static_cast<void>(tries[i].receive());
      if (tries[i].open() && tries[i].heard_of() >= 0) return std::move(tries[i]);
    }
  }
  return {-1, token};
}

}  // namespace motley
