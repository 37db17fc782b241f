// Serves one trace file to the Perfetto UI, on this machine alone.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace epilogue::trace {

struct ServeOptions {
  int port = 9001;  // the only one the Perfetto UI may fetch from; 0: any free one, for tests
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

class TraceServer {
 public:
  // Opens the port on 127.0.0.1. Throws Error when the file cannot be read or the port is taken.
  explicit TraceServer(const std::string& path, const ServeOptions& options = {});
  ~TraceServer();

  int port() const;
  std::string file_url() const;  // "http://127.0.0.1:9001/mlp.json.gz"
  std::string link() const;      // to open in a browser: the Perfetto UI with file_url()

  // Answers requests for that file, and 404 to others, until it was fetched once or the timeout has passed.
  // Returns whether it was fetched.
  bool serve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace epilogue::trace
