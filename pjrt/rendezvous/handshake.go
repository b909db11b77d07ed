package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Who connects proves that it knows the secret of the job before the server reads a request, and the server proves it
// too. Neither sends the secret. Each sends a random number, and an HMAC-SHA-256 by the secret: of both numbers, the
// address of the store and what it says.
//
//	server → client: magic, server's number
//	client → server: client's number, member, members in all, proof
//	server → client: verdict, length of the reason, proof, reason
const (
	magic         = "TGXSTOR2"
	nonceSize     = 32
	proofSize     = sha256.Size
	greetingSize  = len(magic) + nonceSize
	claimSize     = nonceSize + 4 + 4 + proofSize
	verdictSize   = 1 + 2 + proofSize
	handshakeTime = 10 * time.Second
)

// Verdicts.
const (
	welcome byte = iota
	stranger
	unwanted // a process of the job that cannot join
)

// Member is a process of a job of Count; the zero value is none.
type Member struct {
	Index, Count int
}

// noMember is on a connection that is not that of a member.
const noMember = -1

func proof(secret []byte, who byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte{who})
	for _, p := range parts {
		mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(p))))
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// prove is the client's side. The error of a server that refuses is a *pjrt.Error.
func prove(conn net.Conn, address string, secret []byte, m Member) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	var hello [greetingSize]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return err
	}
	if string(hello[:len(magic)]) != magic {
		return refusal(pjrt.Unauthenticated, "what listens at %s is not the store of a job", address)
	}
	theirs := hello[len(magic):]
	claim := make([]byte, nonceSize, claimSize)
	if _, err := rand.Read(claim); err != nil {
		return err
	}
	ours := claim[:nonceSize:nonceSize]
	claim = binary.LittleEndian.AppendUint32(claim, uint32(m.Index))
	claim = binary.LittleEndian.AppendUint32(claim, uint32(m.Count))
	claim = append(claim, proof(secret, 'c', []byte(address), theirs, claim)...)
	if _, err := conn.Write(claim); err != nil {
		return err
	}
	var verdict [verdictSize]byte
	if _, err := io.ReadFull(conn, verdict[:]); err != nil {
		return err
	}
	reason := make([]byte, binary.LittleEndian.Uint16(verdict[1:]))
	if _, err := io.ReadFull(conn, reason); err != nil {
		return err
	}
	if verdict[0] == stranger {
		return refusal(pjrt.PermissionDenied, "the store at %s belongs to a job with another secret", address)
	}
	if !hmac.Equal(verdict[3:], proof(secret, 's', ours, theirs, verdict[:1], reason)) {
		return refusal(pjrt.Unauthenticated, "what listens at %s does not know the secret of the job", address)
	}
	if verdict[0] != welcome {
		return refusal(pjrt.AlreadyExists, "the store at %s: %s", address, reason)
	}
	return conn.SetDeadline(time.Time{})
}

var (
	errStranger  = errors.New("it does not know the secret")
	errDisplaced = errors.New("it was too slow for the number of those that connect")
)

// examine is the server's side; admit says why a member cannot join.
func examine(conn net.Conn, address string, secret []byte, admit func(Member) error) (Member, error) {
	var m Member
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return m, err
	}
	hello := append(make([]byte, 0, greetingSize), magic...)
	hello = hello[:greetingSize]
	if _, err := rand.Read(hello[len(magic):]); err != nil {
		return m, err
	}
	ours := hello[len(magic):]
	if _, err := conn.Write(hello); err != nil {
		return m, err
	}
	var claim [claimSize]byte
	if _, err := io.ReadFull(conn, claim[:]); err != nil {
		return m, err
	}
	said, theirs := claim[:claimSize-proofSize], claim[:nonceSize]
	verdict := make([]byte, verdictSize)
	if !hmac.Equal(claim[claimSize-proofSize:], proof(secret, 'c', []byte(address), ours, said)) {
		verdict[0] = stranger
		_, err := conn.Write(verdict)
		return m, errors.Join(errStranger, err)
	}
	m.Index = int(int32(binary.LittleEndian.Uint32(claim[nonceSize:])))
	m.Count = int(int32(binary.LittleEndian.Uint32(claim[nonceSize+4:])))
	reason := ""
	refused := admit(m)
	if refused != nil {
		verdict[0], reason = unwanted, refused.Error()
	}
	binary.LittleEndian.PutUint16(verdict[1:], uint16(len(reason)))
	copy(verdict[3:], proof(secret, 's', theirs, ours, verdict[:1], []byte(reason)))
	if _, err := conn.Write(append(verdict, reason...)); err != nil {
		return m, errors.Join(refused, err)
	}
	return m, errors.Join(refused, conn.SetDeadline(time.Time{}))
}
