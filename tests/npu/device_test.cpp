// Descriptions of devices: those in the program, and errors for invalid ones.
#include "src/npu/device.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/npu/shipped.h"

namespace tessera::npu {
namespace {

std::string toy_json() {
    for (const ShippedFile& file : shipped_device_files())
        if (file.name == "toy") return std::string(file.json);
    return {};
}

/// The description of the toy with one text in it replaced.
std::string changed(const std::string& from, const std::string& to) {
    std::string json = toy_json();
    const size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? json : json.replace(at, from.size(), to);
}

std::string error_of(const std::string& json) {
    const auto device = parse_device(json);
    return device ? "none" : device.error().message;
}

TEST(Device, ShippedOnesReadAndSayWhereEachFieldComesFrom) {
    std::set<std::string> names;
    std::set<uint64_t> hashes;
    for (const std::string_view name : shipped_devices()) {
        const auto device = open_device(std::string(name));
        ASSERT_TRUE(device) << name << ": " << device.error().message;
        EXPECT_EQ(device->name, name);
        names.insert(device->name);
        hashes.insert(device->hash());
        std::set<std::string> sourced;
        for (const auto& [field, source] : device->sources) sourced.insert(field);
        for (const DeviceField& field : device_fields())
            EXPECT_TRUE(sourced.contains(std::string(field.name))) << name << ": " << field.name;
    }
    const std::set<std::string> expected = {"x-elite", "sm8850", "sm8750", "sm8650",
                                            "sm8550",  "sm8450", "xr-2mb", "toy"};
    EXPECT_EQ(names, expected);
    EXPECT_EQ(hashes.size(), names.size());
    EXPECT_EQ(open_device("toy")->vtcm_bytes, 64 << 10);
    EXPECT_EQ(open_device("xr-2mb")->vtcm_bytes, 2 << 20);
    EXPECT_EQ(open_device("x-elite")->arch, 73);
    EXPECT_EQ(open_device("sm8450")->vtcm_span_bytes, 256 << 10);
}

TEST(Device, HashIsOfTheValuesAlone) {
    const auto toy = parse_device(toy_json());
    const std::string sources = toy_json().substr(toy_json().find("\"sources\""));
    std::string without = toy_json();
    without.replace(without.find(",\n  \"sources\""), std::string::npos, "}");
    const auto bare = parse_device(without);
    ASSERT_TRUE(bare) << bare.error().message;
    EXPECT_TRUE(bare->sources.empty());
    EXPECT_EQ(bare->hash(), toy->hash());
    const auto faster = parse_device(changed("\"gb_per_s\": 62.8", "\"gb_per_s\": 62.9"));
    ASSERT_TRUE(faster) << faster.error().message;
    EXPECT_NE(faster->hash(), toy->hash());
    EXPECT_NE(toy->canonical_text().find("\ndma.gb_per_s=62.8\n"), std::string::npos);
}

TEST(Device, WrongFieldsAreNamed) {
    const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"clock_hz\"", "\"clok_hz\"", "unknown field 'clok_hz'; did you mean 'clock_hz'?"},
        {"\"latency_ns\"", "\"latency\"", "unknown field 'dma.latency'"},
        {"\"clock_hz\": 1373000000,", "", "the field 'clock_hz' is missing"},
        {"\"efficiency\": 1.0", "\"efficiency\": 0",
         "'hmx.efficiency': expected a number from 0.01 to 1, found 0"},
        {"\"arch\": \"v73\"", "\"arch\": 73", "'arch': expected a text from \"v66\" to \"v99\", found 73"},
        {"\"arch\": \"v73\"", "\"arch\": \"v7\"", "'arch'"},
        {"\"arch\": \"v73\"", "\"arch\": \"73\"", "'arch'"},
        {"\"vtcm_bytes\": 65536", "\"vtcm_bytes\": 65537",
         "'vtcm_bytes': expected a multiple of 2048, found 65537"},
        {"\"vtcm_bytes\": 65536", "\"vtcm_bytes\": 1024", "'vtcm_bytes': expected an integer from 16384"},
        {"\"vtcm_bytes\": 65536", "\"vtcm_bytes\": 65536.0", "'vtcm_bytes': expected an integer"},
        {"\"vtcm_bytes\": 65536", "\"vtcm_bytes\": \"65536\"", "'vtcm_bytes': expected an integer"},
        {"\"vtcm_bytes\": 65536", "\"vtcm_bytes\": 99999999999999999999999",
         "'vtcm_bytes': expected an integer"},
        {"\"lpbq\": true", "\"lpbq\": 1", "'features.lpbq': expected true or false, found 1"},
        {"\"name\": \"toy\"", "\"name\": \"T oy\"", "'name': expected 1 to 64 small letters"},
        {"\"name\": \"toy\",", "", "the field 'name' is missing"},
        {"\"name\": \"toy\"", "\"name\": \"toy\", \"name\": \"toy\"", "twice"},
        {"\"name\": \"toy\"", "\"name\": \"toy\", \"dma\": 3", "twice"},
        {"\"hmx\": {", "\"hmy\": {", "unknown field 'hmy'"},
        {"\"sources\": {", "\"sources\": {\"hmx\": \"assumed: x\",", "'sources.hmx': there is no field"},
        {"\"arch\": \"assumed:", "\"arch\": \"guessed:", "'sources.arch': expected a text that starts with"},
    };
    for (const auto& c : cases)
        EXPECT_NE(error_of(changed(c.from, c.to)).find(c.says), std::string::npos)
            << c.to << ": " << error_of(changed(c.from, c.to));
    EXPECT_EQ(error_of("[1]"), "expected an object, found array");
    EXPECT_NE(error_of("{\"name\": \"a\", \"hmx\": 3}").find("'hmx': expected an object, found 3"),
              std::string::npos);
}

TEST(Device, NoPrefixIsADescription) {
    std::string json = toy_json();
    while (json.back() == '\n') json.pop_back();
    ASSERT_TRUE(parse_device(json));
    for (size_t n = 0; n < json.size(); ++n)
        ASSERT_FALSE(parse_device(std::string_view(json).substr(0, n))) << n;
}

TEST(Device, UnknownNameListsTheShippedOnes) {
    const auto device = open_device("no-such-device");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::NotFound);
    EXPECT_NE(device.error().message.find("x-elite"), std::string::npos);
    EXPECT_NE(open_device("/").error().message.find("/"), std::string::npos);
}

}  // namespace
}  // namespace tessera::npu
