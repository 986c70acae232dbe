package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// errEncoding is that of a watch whose events the proxy cannot separate.
var errEncoding = errors.New("the proxy reads watches in JSON and protobuf only")

// encoding is how the events of a watch are written.
type encoding struct {
	// read returns the next event, or what there is of it with an error.
	read func(*bufio.Reader) ([]byte, error)
	// errorEvent returns an event that says what is wrong.
	errorEvent func(*metav1.Status) ([]byte, error)
}

// encodingOf returns the encoding of a watch, by its Content-Type.
func encodingOf(contentType string) (encoding, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && mediaType == runtime.ContentTypeJSON:
		return encoding{read: readLine, errorEvent: errorLine}, nil
	case err == nil && mediaType == runtime.ContentTypeProtobuf:
		return encoding{read: readFrame, errorEvent: errorFrame}, nil
	default:
		return encoding{}, fmt.Errorf("%w, not in %q", errEncoding, contentType)
	}
}

// readLine reads an event in JSON. The API server writes each on a line.
func readLine(r *bufio.Reader) ([]byte, error) {
	return r.ReadBytes('\n')
}

func errorLine(status *metav1.Status) ([]byte, error) {
	event, err := json.Marshal(&metav1.WatchEvent{
		Type:   string(watch.Error),
		Object: runtime.RawExtension{Object: status},
	})
	return append(event, '\n'), err
}

// frameHead is the size of what stands before an event in protobuf: its length
// in network order.
const frameHead = 4

// readFrame reads an event in protobuf.
func readFrame(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, frameHead)
	if n, err := io.ReadFull(r, head); err != nil {
		return head[:n], err
	}
	frame := make([]byte, frameHead+int(binary.BigEndian.Uint32(head)))
	n, err := io.ReadFull(r, frame[copy(frame, head):])
	return frame[:frameHead+n], err
}

func errorFrame(status *metav1.Status) ([]byte, error) {
	object := &bytes.Buffer{}
	if err := protobuf.NewSerializer(nil, nil).Encode(status, object); err != nil {
		return nil, err
	}
	event, err := (&metav1.WatchEvent{
		Type:   string(watch.Error),
		Object: runtime.RawExtension{Raw: object.Bytes()},
	}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), nil
}
