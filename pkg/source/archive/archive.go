package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

const (
	// maxArchive is the size of an archive, and maxContent of its files together, in bytes.
	maxArchive = 4 << 20
	maxContent = 32 << 20
)

// Archive is a gzipped tar archive.
type Archive struct {
	Content []byte
	// Digest is the SHA-256 of the content, in hexadecimal digits.
	Digest string
}

// Pack returns the archive of files by their names. The same files make the same archive. It fails if they are too large.
func Pack(files map[string]string) (Archive, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive, size := tar.NewWriter(zipped), 0
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if size += len(files[name]); size > maxContent {
			return Archive{}, fmt.Errorf("the files have more than %d bytes", maxContent)
		}
		faults = append(faults, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Format: tar.FormatPAX}))
		_, err := io.WriteString(archive, files[name])
		faults = append(faults, err)
	}
	if err := errors.Join(append(faults, archive.Close(), zipped.Close())...); err != nil {
		return Archive{}, fmt.Errorf("pack the files: %w", err)
	}
	if packed.Len() > maxArchive {
		return Archive{}, fmt.Errorf("the files have %d bytes when they are packed, and the limit is %d", packed.Len(), maxArchive)
	}
	sum := sha256.Sum256(packed.Bytes())
	return Archive{packed.Bytes(), hex.EncodeToString(sum[:])}, nil
}

// Names returns the names of the files in an archive.
func Names(content []byte) (names []string, err error) {
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(io.LimitReader(zipped, 2*maxContent))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		} else if err != nil {
			return nil, err
		}
		names = append(names, header.Name)
	}
}
