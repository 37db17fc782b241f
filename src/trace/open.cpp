#include "trace/open.h"

#include <algorithm>
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
  struct File {
    std::string path, name;  // name: what it is asked for by
    size_t size = 0;
    bool fetched = false;  // under the mutex
  };

  httplib::Server server;
  std::vector<File> files;
  int port = 0;
  std::chrono::milliseconds timeout{};
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;

  void add(const std::string& path);
  File* asked_for(const httplib::Request& request);
  void answer(const httplib::Request& request, httplib::Response& response);
  bool all_fetched() const {
    return std::ranges::all_of(files, [](const File& file) { return file.fetched; });
  }
  void stop_after_timeout();
};

void TraceServer::State::add(const std::string& path) {
  std::error_code error;
  const size_t size = std::filesystem::file_size(path, error);
  EP_CHECK(!error, "{}: cannot open: {}", path, error.message());
  open_to_read(path, "a trace file");
  const std::string base = std::filesystem::path(path).filename();
  const auto taken = [this](const std::string& name) {
    return std::ranges::find(files, name, &File::name) != files.end();
  };
  std::string name = base;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}-{}", n, base);
  files.push_back({.path = path, .name = name, .size = size});
}

// Null where nothing may be told. A page of another origin that points its own host name at 127.0.0.1 sends
// that name as Host, and is refused.
TraceServer::State::File* TraceServer::State::asked_for(const httplib::Request& request) {
  if (request.get_header_value("Host") != fmt::format("{}:{}", kHost, port)) return nullptr;
  const auto file = std::ranges::find_if(files, [&](const File& f) { return request.path == "/" + f.name; });
  return file == files.end() ? nullptr : &*file;
}

void TraceServer::State::answer(const httplib::Request& request, httplib::Response& response) {
  File* const wanted = asked_for(request);
  if (!wanted) {
    response.status = 404;
    return;
  }
  response.set_header("Access-Control-Allow-Origin", kPerfetto);
  response.set_header("Access-Control-Allow-Private-Network", "true");
  response.set_header("Cache-Control", "no-store");
  if (request.method == "OPTIONS") return;
  auto file = std::make_shared<std::ifstream>(wanted->path, std::ios::binary);
  auto send = [file](size_t offset, size_t length, httplib::DataSink& sink) {
    std::string piece(std::min<size_t>(length, 1 << 16), '\0');
    file->seekg(static_cast<std::streamoff>(offset));
    return file->read(piece.data(), static_cast<std::streamsize>(piece.size())) &&
           sink.write(piece.data(), piece.size());
  };
  const bool is_get = request.method == "GET";
  auto sent_all = [this, wanted, is_get](bool sent) {
    if (!sent || !is_get) return;
    const std::lock_guard lock(mutex);
    wanted->fetched = true;
    if (all_fetched()) server.stop();
  };
  response.set_content_provider(wanted->size, "application/octet-stream", send, sent_all);
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

TraceServer::TraceServer(const std::vector<std::string>& paths, const ServeOptions& options)
    : state_(new State) {
  State& state = *state_;
  for (const std::string& path : paths) state.add(path);
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

std::vector<std::string> TraceServer::links() const {
  std::vector<std::string> links;
  for (const State::File& file : state_->files)
    links.push_back(
        fmt::format("{}/#!/?url=http://{}:{}/{}", kPerfetto, kHost, port(), percent_encoded(file.name)));
  return links;
}

bool TraceServer::serve() {
  std::thread timer([this] { state_->stop_after_timeout(); });
  state_->server.listen_after_bind();
  bool fetched = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
    fetched = state_->all_fetched();
  }
  state_->wake.notify_all();
  timer.join();
  return fetched;
}

}  // namespace epilogue::trace
