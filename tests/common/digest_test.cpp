// Published test vectors; the digest does not depend on how the input is cut.
#include "common/digest.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tessera {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string sha256(std::string_view text) {
    Sha256 digest;
    digest.add(bytes_of(text));
    return to_hex(digest.value());
}
std::string xxh64(std::string_view text) {
    Xxh64 digest;
    digest.add(bytes_of(text));
    return to_hex(digest.value());
}

TEST(Digest, PublishedValues) {
    // FIPS 180-4 examples.
    EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    // The empty input, and inputs of one and several stripes, by the reference implementation.
    EXPECT_EQ(xxh64(""), "ef46db3751d8e999");
    EXPECT_EQ(xxh64("a"), "d24ec4f1a98c6e5b");
    EXPECT_EQ(xxh64("abc"), "44bc2cf5ad770999");
    EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), "fbcea83c8a378bf1");
}

TEST(Digest, CutsDoNotMatter) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
    const std::string_view view = text;
    for (size_t n = 0; n <= view.size(); n += 3) {
        for (const size_t cut : {n / 3, n / 2, n}) {
            Sha256 sha;
            Xxh64 xxh;
            for (const std::string_view part : {view.substr(0, cut), view.substr(cut, n - cut)}) {
                sha.add(bytes_of(part));
                xxh.add(bytes_of(part));
            }
            EXPECT_EQ(to_hex(sha.value()), sha256(view.substr(0, n))) << n << " " << cut;
            EXPECT_EQ(to_hex(xxh.value()), xxh64(view.substr(0, n))) << n << " " << cut;
        }
    }
}

}  // namespace
}  // namespace tessera
