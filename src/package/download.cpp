#include "package/download.h"

#include <exception>

#include <fcntl.h>
#include <httplib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/check.h"
#include "package/digest.h"

namespace epilogue::package {
namespace {

constexpr time_t kConnectSeconds = 10, kReadSeconds = 30;
constexpr int kOk = 200, kPartial = 206, kBadRange = 416;

struct Url {
  std::string server, path;  // "http://127.0.0.1:8000", "/geglu/index.json"
};

Url split(const std::string& url) {
  const size_t slash = url.find('/', url.find("://") + 3);
  return {url.substr(0, slash), slash == url.npos ? "/" : url.substr(slash)};
}

// GET `url` from byte `begin`. `answered` gets the status and says whether the body is wanted, `piece` the
// body. An exception of either ends the transfer and is thrown here.
void get(const std::string& url, uint64_t begin,
         const std::function<bool(const httplib::Response&)>& answered,
         const std::function<void(std::string_view)>& piece) {
  const Url parts = split(url);
  httplib::Client client(parts.server);
  EP_CHECK(client.is_valid(), "{}: this is no address that can be fetched from", url);
  client.set_follow_location(true);
  client.set_decompress(false);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(kReadSeconds);
  httplib::Headers headers{{"Accept-Encoding", "identity"}};
  if (begin > 0) headers.emplace("Range", fmt::format("bytes={}-", begin));
  std::exception_ptr thrown;
  bool wanted = true;
  const auto guarded = [&thrown](auto&& call) {
    try {
      return call();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  };
  const auto result = client.Get(
      parts.path, headers,
      [&](const httplib::Response& response) { return guarded([&] { return wanted = answered(response); }); },
      [&](const char* bytes, size_t size) {
        return guarded([&] {
          piece({bytes, size});
          return true;
        });
      });
  if (thrown) std::rethrow_exception(thrown);
  EP_CHECK(result || !wanted, "{}: {}", url,
           result.error() == httplib::Error::Connection ? "no server answers there"
                                                        : httplib::to_string(result.error()));
}

void check_status(const std::string& url, const httplib::Response& response) {
  EP_CHECK(response.status == kOk || response.status == kPartial, "{}: the server answers {} {}", url,
           response.status, response.reason);
}

// "bytes 100-199/200" begins where we asked.
bool begins_at(const httplib::Response& response, uint64_t begin) {
  return response.get_header_value("Content-Range").starts_with(fmt::format("bytes {}-", begin));
}

}  // namespace

bool is_url(const std::string& source) {
  return source.starts_with("http://") || source.starts_with("https://");
}

std::string fetch_text(const std::string& url, uint64_t limit) {
  std::string text;
  get(
      url, 0,
      [&](const httplib::Response& response) {
        check_status(url, response);
        return true;
      },
      [&](std::string_view piece) {
        EP_CHECK(piece.size() <= limit - text.size(), "{}: it is larger than the {} bytes it may have", url,
                 limit);
        text += piece;
      });
  return text;
}

uint64_t Download::bytes_there() const {
  struct stat status {};
  EP_CHECK(fstat(lock_.descriptor(), &status) == 0, "{}: cannot be read", path_);
  return static_cast<uint64_t>(status.st_size);
}

void Download::restart() { EP_CHECK(ftruncate(lock_.descriptor(), 0) == 0, "{}: cannot be written", path_); }

// False when the server cannot go on from where we are: the file is empty then.
bool Download::fetch_rest(const Wanted& wanted, const Progress& progress) {
  uint64_t there = bytes_there();
  if (there > wanted.size) restart(), there = 0;
  const uint64_t begin = there;
  bool goes_on = true;
  lseek(lock_.descriptor(), 0, SEEK_END);
  get(
      wanted.url, begin,
      [&](const httplib::Response& response) {
        if (response.status == kBadRange || (response.status == kPartial && !begins_at(response, begin)))
          return goes_on = false;
        check_status(wanted.url, response);
        if (response.status == kOk && begin > 0) {  // this server sends all of it again
          restart();
          lseek(lock_.descriptor(), 0, SEEK_SET);
          there = 0;
        }
        return true;
      },
      [&](std::string_view piece) {
        EP_CHECK(piece.size() <= wanted.size - there, "{}: it is larger than the {} bytes the index tells",
                 wanted.url, wanted.size);
        write_all(lock_.descriptor(), piece, path_);
        there += piece.size();
        if (progress) progress(there, wanted.size);
      });
  if (!goes_on) restart();
  return goes_on;
}

Download::Download(const Wanted& wanted, const std::string& folder, const Progress& progress)
    : path_(folder + "/" + wanted.sha256 + ".part") {
  make_folders(folder);
  lock_ = FileLock::wait(path_);
  // A second round begins anew when the first found that what was there cannot be gone on with.
  for (int round = 0; round < 2; ++round) {
    const bool fresh = bytes_there() == 0;
    if (bytes_there() != wanted.size) {
      try {
        if (!fetch_rest(wanted, progress)) continue;
      } catch (const Error& error) {
        fail("{}; {} of {} bytes are there, adding it again goes on from them", error.what(), bytes_there(),
             wanted.size);
      }
      EP_CHECK(bytes_there() == wanted.size, "{}: the server sent {} of {} bytes; adding it again goes on",
               wanted.url, bytes_there(), wanted.size);
    }
    Sha256 digest;
    read_pieces(path_, [&digest](std::string_view piece) { digest.add(piece); });
    const std::string found = digest.finish();
    if (found == wanted.sha256) return;
    restart();
    EP_CHECK(!fresh, "{}: its SHA-256 is {}, the index tells {}", wanted.url, found, wanted.sha256);
  }
  fail("{}: the server does not send it from its beginning", wanted.url);
}

void Download::discard() {
  unlink(path_.c_str());
  lock_ = FileLock();
}

}  // namespace epilogue::package
