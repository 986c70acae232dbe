package cloudevents

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"
)

// maxHeaders is how many bytes a file with headers has at most.
const maxHeaders = 16 << 10

// reservedHeaders are those that a CloudEvent and HTTP set.
var reservedHeaders = []string{"Content-Type", "Content-Length", "Host", "Transfer-Encoding", "Connection", "User-Agent"}

// readHeaders reads headers of requests from a file: one "Name: value" a line, as in HTTP. It returns nil for an empty
// path. The errors quote names, and no value.
func readHeaders(path string) (http.Header, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path) //nolint:gosec // the administrator names it
	if err != nil {
		return nil, fmt.Errorf("read the headers: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(file, maxHeaders+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the headers: %w", err)
	case len(text) > maxHeaders:
		return nil, fmt.Errorf("the file with headers has more than %d bytes", maxHeaders)
	}
	lines := append(bytes.TrimSpace(text), "\r\n\r\n"...)
	read, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(lines))).ReadMIMEHeader()
	if err != nil || len(read) == 0 { // the error quotes the line
		return nil, errors.New(`the file with headers has a line that is no header, or none: write "Name: value" in each`)
	}
	headers := http.Header(read)
	for name := range headers {
		if slices.Contains(reservedHeaders, name) || strings.HasPrefix(name, "Ce-") {
			return nil, fmt.Errorf("the file with headers has %s, which each CloudEvent sets: remove it", name)
		}
	}
	return headers, nil
}
