"""TLS is spoken in memory over a plain socket, so the kernel's stamps hold there too."""

import shutil
import ssl
import subprocess
import sys

import pytest
from fakeserver import Script, serving

from servesmith.load.client import ask
from servesmith.load.wire import Limits

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program for a certificate")


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate for localhost, signed by itself."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def bodies(count):
    return [b'{"stream": true, "n": %d, "pad": "%b"}' % (n, b"x" * 100_000) for n in range(count)]


def test_streams_over_tls_with_large_requests(certificate, monkeypatch):
    cert, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with serving(Script(ttft_s=0.02, gap_s=0.002, tokens=20), tls=context) as server:
        records = ask(server.url.replace("http://127.0.0.1", "https://localhost"), bodies(4), 2)
        assert server.connections == 2
    assert [(r.error, r.output_tokens) for r in records] == [("", 20)] * 4
    assert {r.stamp_source for r in records} == {"kernel" if sys.platform == "linux" else "loop"}
    assert all(r.chunk_ns[-1] > r.chunk_ns[1] > r.sent_ns for r in records)


def test_a_certificate_that_nobody_vouches_for_is_a_connect_error(certificate):
    _, context = certificate
    with serving(Script(), tls=context) as server:
        (record,) = ask(server.url.replace("http://127.0.0.1", "https://localhost"), bodies(1), 1)
    assert record.error == "connect" and "certificate" in record.detail


def test_a_server_without_tls_is_a_connect_error():
    with serving(Script()) as server:
        (record,) = ask(server.url.replace("http://127.0.0.1", "https://localhost"), bodies(1), 1, Limits(connect_s=1))
    assert record.error == "connect"
