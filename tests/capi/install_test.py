"""The installed files suffice to build and run the embedding examples, and the library exports only the interface."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/tessera-tiny.gguf"


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    build = cmake = ""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tessera-install-")
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        run(cls.cmake, "--install", cls.build, "--prefix", cls.prefix)
        cls.libraries = next(cls.prefix.rglob("libtessera.so")).parent

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def build_example(self, name):
        build = pathlib.Path(self.folder.name) / name
        run(self.cmake, "-G", "Ninja", "-S", ROOT / "examples" / name, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(self.cmake, "--build", build)
        return build

    def example(self, name, *arguments):
        return run(self.build_example(name) / name, *arguments)

    def test_c_through_cmake(self):
        build = self.build_example("embed-c")
        said = run(build / "embed-c", MODEL, "Once upon a time")
        self.assertRegex(said, r"\n\d+ tokens\n$")
        said = run(build / "embed-c-chat", MODEL, 'What is the weather in "Oslo"?')
        self.assertRegex(said, r'^call: weather \{"city": ".*"\}\n$')

    def test_cpp_through_cmake(self):
        said = self.example("embed-cpp", MODEL)
        self.assertTrue(said.startswith("llama, "))
        self.assertIn("The captain looked ...", said)

    def test_c_through_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "tessera", env=environment).split()
        program = pathlib.Path(self.folder.name) / "by-hand"
        run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
            ROOT / "examples/embed-c/main.c", "-o", program, *flags)
        said = run(program, MODEL, "Once", env=os.environ | {"LD_LIBRARY_PATH": str(self.libraries)})
        self.assertIn("tokens", said)

    def test_the_lines_of_the_documentation(self):
        page = (ROOT / "docs/reference/c-api.md").read_text()
        lines = [line for line in page.splitlines() if line.startswith(("cc ", "./embed-c "))]
        self.assertEqual(len(lines), 2)
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig"),
                                    "LD_LIBRARY_PATH": str(self.libraries)}
        place = pathlib.Path(self.folder.name) / "lines"
        place.mkdir()
        for folder in ("examples", "models"):
            (place / folder).symlink_to(ROOT / folder)
        said = run("sh", "-ec", "\n".join(lines), env=environment, cwd=place)
        self.assertIn("tokens", said)

    def test_the_example_of_the_cpp_namespace(self):
        page = (ROOT / "docs/reference/c-api.md").read_text()
        example, = re.findall(r"```cpp\n(.*?)```", page, re.S)
        source = pathlib.Path(self.folder.name) / "example.cpp"
        source.write_text(example)
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "tessera", env=environment).split()
        run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", source, "-o", source.with_suffix(""), *flags)
        said = run(source.with_suffix(""), MODEL, env=os.environ | {"LD_LIBRARY_PATH": str(self.libraries)})
        self.assertTrue(said.strip())

    def test_structs_are_initialized_without_warnings(self):
        source = pathlib.Path(self.folder.name) / "init.c"
        source.write_text("#include <tessera.h>\nint main(void) {\n    tsr_model_options o = TSR_INIT(tsr_model_options);\n"
                          "    return o.size == sizeof o && !o.progress ? 0 : 1;\n}\n")
        for compiler in (("cc", "-std=c99", "-x", "c"), ("c++", "-std=c++98", "-x", "c++"), ("c++", "-std=c++20", "-x", "c++")):
            run(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{self.prefix}/include", source, "-o",
                source.with_suffix(""))
            run(source.with_suffix(""))

    def test_documents_manual_pages_and_the_model(self):
        for path in ("share/doc/tessera/LICENSE", "share/doc/tessera/README.md", "share/doc/tessera/docs/reference/c-api.md",
                     "share/tessera/models/tessera-tiny.gguf", "share/man/man1/tessera.1", "share/man/man1/tessera-run.1",
                     "share/bash-completion/completions/tessera"):
            self.assertTrue((self.prefix / path).is_file(), path)
        said = run(self.prefix / "bin/tessera", "run", "-p", "Once upon a time", "-n", "4", env={"PATH": os.environ["PATH"]})
        self.assertTrue(said.strip())

    def test_completion(self):
        script = (f'PATH={self.prefix}/bin:$PATH; . {self.prefix}/share/bash-completion/completions/tessera\n'
                  'COMP_WORDS=(tessera tok) COMP_CWORD=1; _tessera tessera; echo "${COMPREPLY[@]}"\n'
                  'COMP_WORDS=(tessera tokenize --ids) COMP_CWORD=2; _tessera tessera; echo "${COMPREPLY[@]}"\n')
        self.assertEqual(run("bash", "-c", script).split(), ["tokenize", "--ids"])

    def test_no_path_of_the_checkout(self):
        for file in (self.prefix / "bin/tessera", next(self.prefix.rglob("libtessera.so"))):
            self.assertNotIn(str(ROOT).encode(), file.read_bytes(), file)

    def test_static_through_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        flags = run("pkg-config", "--static", "--cflags", "--libs",
                    "tessera", env=environment).split()
        flags[flags.index("-ltessera")] = "-l:libtessera.a"
        program = pathlib.Path(self.folder.name) / "static-by-hand"
        run("cc", "-std=c99", ROOT / "examples/embed-c/main.c", "-o", program, *flags)
        self.assertNotIn("libtessera", run("ldd", program))
        self.assertIn("tokens", run(program, MODEL, "Once"))

    def test_static_through_cmake(self):
        source = pathlib.Path(self.folder.name) / "static"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(embed LANGUAGES CXX)\n"
            "find_package(tessera REQUIRED COMPONENTS static)\n"
            f"add_executable(embed {ROOT / 'examples/embed-cpp/main.cpp'})\n"
            "target_compile_features(embed PRIVATE cxx_std_17)\n"
            "target_link_libraries(embed PRIVATE tessera::static)\n")
        run(self.cmake, "-G", "Ninja", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(self.cmake, "--build", source / "build")
        self.assertNotIn("libtessera", run("ldd", source / "build/embed"))
        self.assertIn("The captain looked ...", run(source / "build/embed", MODEL))

    def test_the_archive_shows_the_interface_alone(self):
        defined = [line.split()[1:] for line in run("nm", "--defined-only", self.libraries / "libtessera.a").splitlines()
                   if len(line.split()) == 3]
        visible = {name for kind, name in defined if kind in "TWVBDRG"}
        self.assertEqual([name for name in visible if not name.startswith("tsr_")], [])
        self.assertIn("tsr_model_load", visible)

    def test_only_the_interface_is_exported(self):
        names = {line.split()[-1].split("@")[0]
                 for line in run("nm", "-D", "--defined-only", self.libraries / "libtessera.so").splitlines()}
        declared = set(re.findall(r"\b(tsr_\w+)\(", (ROOT / "include/tessera.h").read_text()))
        self.assertEqual(names - {"TESSERA_1"}, declared - {name for name in declared if name.endswith("_fn")})


if __name__ == "__main__":
    Installed.cmake, Installed.build = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
