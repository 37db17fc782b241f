#include "trace/open.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <httplib.h>

#include <sys/socket.h>

#include "base/check.h"
#include "base/file.h"

namespace epilogue::trace {
namespace {

constexpr const char* kHost = "127.0.0.1";
constexpr const char* kPerfetto = "https://ui.perfetto.dev";

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const unsigned char c : text) {
    const bool plain = std::isalnum(c) || c == '.' || c == '_' || c == '-';
    encoded += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return encoded;
}

}  // namespace

struct TraceServer::State {
  httplib::Server server;
  std::string path, name;
  size_t size = 0;
  int port = 0;
  std::chrono::milliseconds timeout{};
  std::atomic<bool> fetched = false;
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;

  void answer(const httplib::Request& request, httplib::Response& response);
  void stop_after_timeout();
};

// A page of another origin that points its own host name at 127.0.0.1 sends that name as Host, and is
// refused.
void TraceServer::State::answer(const httplib::Request& request, httplib::Response& response) {
  const bool asked_here = request.get_header_value("Host") == fmt::format("{}:{}", kHost, port);
  if (!asked_here || request.path != "/" + name) {
    response.status = 404;
    return;
  }
  response.set_header("Access-Control-Allow-Origin", kPerfetto);
  response.set_header("Access-Control-Allow-Private-Network", "true");
  response.set_header("Cache-Control", "no-store");
  if (request.method == "OPTIONS") return;
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  auto send = [file](size_t offset, size_t length, httplib::DataSink& sink) {
    std::string piece(std::min<size_t>(length, 1 << 16), '\0');
    file->seekg(static_cast<std::streamoff>(offset));
    return file->read(piece.data(), static_cast<std::streamsize>(piece.size())) &&
           sink.write(piece.data(), piece.size());
  };
  const bool is_get = request.method == "GET";
  response.set_content_provider(size, "application/octet-stream", send, [this, is_get](bool sent) {
    if (!sent || !is_get) return;
    fetched = true;
    server.stop();
  });
}

// httplib ignores stop() until it listens, so it is told until serve() ends.
void TraceServer::State::stop_after_timeout() {
  std::unique_lock lock(mutex);
  wake.wait_for(lock, timeout, [this] { return done; });
  while (!done) {
    server.stop();
    wake.wait_for(lock, std::chrono::milliseconds(10), [this] { return done; });
  }
}

TraceServer::TraceServer(const std::string& path, const ServeOptions& options) : state_(new State) {
  State& state = *state_;
  std::error_code error;
  state.size = std::filesystem::file_size(path, error);
  EP_CHECK(!error, "{}: cannot open: {}", path, error.message());
  open_to_read(path, "a trace file");
  state.path = path;
  state.name = std::filesystem::path(path).filename();
  state.timeout = options.timeout;
  // httplib's default is SO_REUSEPORT, with which a second server would share the port unnoticed.
  state.server.set_socket_options([](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  auto answer = [&state](const httplib::Request& request, httplib::Response& response) {
    state.answer(request, response);
  };
  state.server.Get(".*", answer).Options(".*", answer);
  state.port = options.port;
  if (options.port == 0) state.port = state.server.bind_to_any_port(kHost);
  const bool bound = options.port == 0 ? state.port > 0 : state.server.bind_to_port(kHost, options.port);
  EP_CHECK(bound, "trace open: port {} of {} is taken; the Perfetto UI fetches from no other", options.port,
           kHost);
}

TraceServer::~TraceServer() = default;

int TraceServer::port() const { return state_->port; }

std::string TraceServer::file_url() const {
  return fmt::format("http://{}:{}/{}", kHost, state_->port, percent_encoded(state_->name));
}

std::string TraceServer::link() const { return fmt::format("{}/#!/?url={}", kPerfetto, file_url()); }

bool TraceServer::serve() {
  std::thread timer([this] { state_->stop_after_timeout(); });
  state_->server.listen_after_bind();
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
  }
  state_->wake.notify_all();
  timer.join();
  return state_->fetched;
}

}  // namespace epilogue::trace
