package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Advice to the user about a failure.
const (
	adviceNetwork     = "check that it runs and that the network lets Vidra reach it"
	adviceCertificate = "correct certificate-authority-data or server in Secret %s"
	adviceCredentials = "renew the credentials in Secret %s"
	adviceOperators   = "Vidra tries it again after a while; ask its operators which server answers there"
	adviceProxy       = "a proxy in front of it finds no API server: check that it runs"
)

var (
	errNoAnswer  = errors.New("it does not answer in time")
	errForgotten = errors.New("this API server is no longer a destination")
)

// failure is the fault of an unreachable API server.
type failure struct {
	reason, advice string
	// partial is whether the failure may affect only some requests: an API server that cannot
	// reach the server of an aggregated group gives the same answer as a proxy that cannot
	// reach the API server, and so does one that serves no such group.
	partial bool
	// unrouted reports an answer that isUnrouted.
	unrouted bool
}

// failureOf returns the failure that the answer to a request shows, which was sent with the
// credentials of a Secret, or nil.
func failureOf(response *http.Response, err error, secret string) *failure {
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return &failure{reason: reasonOf(err), advice: fmt.Sprintf(adviceCertificate, secret)}
	case isOp && op.Op == "remote error": // an alert of TLS
		return &failure{reason: reasonOf(err), advice: fmt.Sprintf(adviceCredentials, secret)}
	case err != nil:
		return &failure{reason: reasonOf(err), advice: adviceNetwork}
	case response.StatusCode == http.StatusUnauthorized:
		return &failure{reason: "it does not accept the credentials (401)", advice: fmt.Sprintf(adviceCredentials, secret)}
	case response.StatusCode == http.StatusBadGateway, response.StatusCode == http.StatusServiceUnavailable,
		response.StatusCode == http.StatusGatewayTimeout:
		return &failure{reason: fmt.Sprintf("it answers %d", response.StatusCode), advice: adviceProxy, partial: true}
	case isUnrouted(response):
		return &failure{reason: "it answers 404", advice: adviceProxy, partial: true, unrouted: true}
	}
	return nil
}

// maxStatus is how much of an answer is read to find out whether it is a Status.
const maxStatus = 64 << 10

// isUnrouted reports whether an answer is a 404 without a Status: of an API server that serves no such group, or of a proxy without an API
// server behind it. The body can still be read as a whole.
func isUnrouted(response *http.Response) bool {
	if response.StatusCode != http.StatusNotFound {
		return false
	}
	body := response.Body
	begin, _ := io.ReadAll(io.LimitReader(body, maxStatus)) // the next read has the error, too
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), body), body}
	status := metav1.TypeMeta{}
	return json.Unmarshal(begin, &status) != nil || status.Kind != "Status"
}

// reasonOf returns the text of a network error without the parts that change each time, such as
// the local port, so that equal failures have equal texts.
func reasonOf(err error) string {
	var (
		certificate *tls.CertificateVerificationError
		dns         *net.DNSError
		timeout     net.Error
	)
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case isOp && op.Op == "proxyconnect":
		return "proxy: " + reasonOf(op.Err)
	case errors.As(err, &certificate):
		return certificate.Err.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host: " + dns.Name
	case errors.As(err, &dns):
		return "the name server did not resolve it: " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was cut"
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, net.ErrClosed): // closed by a probe without an answer
		return errNoAnswer.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no connection in time"
	case isOp:
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
