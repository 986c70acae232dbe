package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// What to do about a failure.
const (
	adviseNetwork     = "see that it runs and that the network lets Vidra reach it"
	adviseCertificate = "correct certificate-authority-data or server in Secret %s"
	adviseCredentials = "renew the credentials in Secret %s"
	adviseOperators   = "Vidra asks it again after a while; ask those who operate it what answers there"
	adviseFront       = "something in front of it finds no API server: see that it runs"
)

var (
	errNoAnswer  = errors.New("it does not answer in time")
	errForgotten = errors.New("nothing is applied to this API server any more")
)

// failure is why an API server counts as unreachable.
type failure struct {
	reason, advice string
	// partial says that it may be so for some requests only: an API server that finds
	// nobody behind it who serves a group answers as does what stands in front of an API
	// server and finds none.
	partial bool
}

// failureOf says what is wrong if a request to an API server, with the credentials
// of a Secret, was answered so; nil if nothing is.
func failureOf(response *http.Response, err error, secret string) *failure {
	var (
		certificate *tls.CertificateVerificationError
		op          *net.OpError
	)
	switch {
	case errors.As(err, &certificate):
		return &failure{reason: reasonOf(err), advice: fmt.Sprintf(adviseCertificate, secret)}
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS
		return &failure{reason: reasonOf(err), advice: fmt.Sprintf(adviseCredentials, secret)}
	case err != nil:
		return &failure{reason: reasonOf(err), advice: adviseNetwork}
	case response.StatusCode == http.StatusUnauthorized:
		return &failure{reason: "it does not accept the credentials (401)", advice: fmt.Sprintf(adviseCredentials, secret)}
	case response.StatusCode == http.StatusBadGateway, response.StatusCode == http.StatusServiceUnavailable,
		response.StatusCode == http.StatusGatewayTimeout:
		return &failure{reason: fmt.Sprintf("it answers %d", response.StatusCode), advice: adviseFront, partial: true}
	}
	return nil
}

// reasonOf is the text of an error of the network without what changes each time,
// such as the local port: who is told the same twice must be able to see that.
func reasonOf(err error) string {
	var (
		certificate *tls.CertificateVerificationError
		dns         *net.DNSError
		op          *net.OpError
		timeout     net.Error
	)
	isOp := errors.As(err, &op)
	switch {
	case isOp && op.Op == "proxyconnect":
		return "proxy: " + reasonOf(op.Err)
	case errors.As(err, &certificate):
		return certificate.Err.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host: " + dns.Name
	case errors.As(err, &dns):
		return "the name server does not say where it is: " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was cut"
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, net.ErrClosed): // by a probe that was not answered
		return errNoAnswer.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no connection in time"
	case isOp:
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
