//! The charsets of texts, as Python reads them, since Dify does: their names, and what invalid bytes become. A charset
//! that Python knows and this table lacks (other DOS pages, EBCDIC, UTF-7) counts as unknown.

use encoding_rs::*;

/// A charset.
#[derive(Debug, Clone, Copy)]
pub(super) enum Charset {
    /// Without its byte order mark.
    Utf8Sig,
    /// In this byte order; a mark is text.
    Utf16(Order),
    /// In the order of its mark, which it must have.
    MarkedUtf16,
    /// As [`Self::Utf16`].
    Utf32(Order),
    /// As [`Self::MarkedUtf16`].
    MarkedUtf32,
    Ascii,
    Latin1,
    /// A table of the upper 128 characters.
    Page(&'static str),
    /// As browsers read it.
    Web(&'static Encoding),
    /// As browsers read it, except that bytes without a character are invalid.
    Windows(&'static Encoding),
    /// As browsers read it, except that the bytes from 0x80 to 0x9F are control characters.
    Iso(&'static Encoding),
}

/// An order of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

use Charset::{Ascii, Iso, Latin1, MarkedUtf16, MarkedUtf32, Page, Utf8Sig, Utf16, Utf32, Web, Windows};
use Order::{Big, Little};

/// The names of Python, normalised: the charset, and its names.
const NAMES: &[(Charset, &str)] = &[
    (Web(UTF_8), "utf_8 cp65001 u8 utf utf8 utf8_ucs2 utf8_ucs4"),
    (Utf8Sig, "utf_8_sig"),
    (MarkedUtf16, "utf_16 u16 utf16"),
    (Utf16(Little), "utf_16_le utf_16le unicodelittleunmarked"),
    (Utf16(Big), "utf_16_be utf_16be unicodebigunmarked"),
    (MarkedUtf32, "utf_32 u32 utf32"),
    (Utf32(Little), "utf_32_le utf_32le"),
    (Utf32(Big), "utf_32_be utf_32be"),
    (
        Ascii,
        "ascii us_ascii us 646 ansi_x3.4_1968 ansi_x3.4_1986 ansi_x3_4_1968 cp367 csascii ibm367 iso646_us iso_ir_6",
    ),
    (
        Latin1,
        "latin_1 8859 cp819 csisolatin1 ibm819 iso8859 iso8859_1 iso_8859_1 iso_8859_1_1987 iso_ir_100 l1 latin latin1",
    ),
    (Iso(ISO_8859_2), "iso8859_2 csisolatin2 iso_8859_2 iso_8859_2_1987 iso_ir_101 l2 latin2"),
    (Iso(ISO_8859_3), "iso8859_3 csisolatin3 iso_8859_3 iso_8859_3_1988 iso_ir_109 l3 latin3"),
    (Iso(ISO_8859_4), "iso8859_4 csisolatin4 iso_8859_4 iso_8859_4_1988 iso_ir_110 l4 latin4"),
    (Iso(ISO_8859_5), "iso8859_5 csisolatincyrillic cyrillic iso_8859_5 iso_8859_5_1988 iso_ir_144"),
    (
        Iso(ISO_8859_6),
        "iso8859_6 arabic asmo_708 csisolatinarabic ecma_114 iso_8859_6 iso_8859_6_1987 iso_ir_127",
    ),
    (
        Iso(ISO_8859_7),
        "iso8859_7 csisolatingreek ecma_118 elot_928 greek greek8 iso_8859_7 iso_8859_7_1987 iso_ir_126",
    ),
    (Iso(ISO_8859_8), "iso8859_8 csisolatinhebrew hebrew iso_8859_8 iso_8859_8_1988 iso_ir_138"),
    (Iso(WINDOWS_1254), "iso8859_9 csisolatin5 iso_8859_9 iso_8859_9_1989 iso_ir_148 l5 latin5"),
    (Iso(ISO_8859_10), "iso8859_10 csisolatin6 iso_8859_10 iso_8859_10_1992 iso_ir_157 l6 latin6"),
    (Iso(WINDOWS_874), "iso8859_11 iso_8859_11 iso_8859_11_2001 thai tis_620 tis620 tis_620_0 iso_ir_166"),
    (Iso(ISO_8859_13), "iso8859_13 iso_8859_13 l7 latin7"),
    (Iso(ISO_8859_14), "iso8859_14 iso_8859_14 iso_8859_14_1998 iso_celtic iso_ir_199 l8 latin8"),
    (Iso(ISO_8859_15), "iso8859_15 iso_8859_15 l9 latin9"),
    (Iso(ISO_8859_16), "iso8859_16 iso_8859_16 iso_8859_16_2001 iso_ir_226 l10 latin10"),
    (Windows(WINDOWS_874), "cp874 windows_874"),
    (Windows(WINDOWS_1250), "cp1250 1250 windows_1250"),
    (Windows(WINDOWS_1251), "cp1251 1251 windows_1251"),
    (Windows(WINDOWS_1252), "cp1252 1252 windows_1252"),
    (Windows(WINDOWS_1253), "cp1253 1253 windows_1253"),
    (Windows(WINDOWS_1254), "cp1254 1254 windows_1254"),
    (Windows(WINDOWS_1255), "cp1255 1255 windows_1255"),
    (Windows(WINDOWS_1256), "cp1256 1256 windows_1256"),
    (Windows(WINDOWS_1257), "cp1257 1257 windows_1257"),
    (Windows(WINDOWS_1258), "cp1258 1258 windows_1258"),
    (Web(KOI8_R), "koi8_r cskoi8r"),
    (Web(KOI8_U), "koi8_u"),
    (Web(MACINTOSH), "mac_roman macintosh macroman"),
    (Web(X_MAC_CYRILLIC), "mac_cyrillic maccyrillic"),
    (Web(IBM866), "cp866 866 csibm866 ibm866"),
    (Page(CP437), "cp437 437 cspc8codepage437 ibm437"),
    (Page(CP850), "cp850 850 cspc850multilingual ibm850"),
    (Page(CP852), "cp852 852 cspcp852 ibm852"),
    (
        Web(GBK),
        "gbk 936 cp936 ms936 gb2312 chinese csiso58gb231280 euc_cn euccn eucgb2312_cn gb2312_1980 gb2312_80 iso_ir_58 x_mac_simp_chinese",
    ),
    (Web(GB18030), "gb18030 gb18030_2000"),
    (Web(BIG5), "big5 big5_tw csbig5 x_mac_trad_chinese big5hkscs big5_hkscs hkscs cp950 950 ms950"),
    (
        Web(SHIFT_JIS),
        "shift_jis csshiftjis s_jis shiftjis sjis x_mac_japanese cp932 932 ms932 ms_kanji mskanji windows_31j",
    ),
    (Web(EUC_JP), "euc_jp eucjp u_jis ujis"),
    (Web(ISO_2022_JP), "iso2022_jp csiso2022jp iso2022jp iso_2022_jp"),
    (
        Web(EUC_KR),
        "euc_kr euckr korean ks_c_5601 ks_c_5601_1987 ks_x_1001 ksc5601 ksx1001 x_mac_korean cp949 949 ms949 uhc",
    ),
];

/// The upper half of cp437.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";
/// The upper half of cp850.
const CP850: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";
/// The upper half of cp852.
const CP852: &str = "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\u{ad}˝˛ˇ˘§÷¸°¨˙űŘř■\u{a0}";

/// Bytes that a text cannot begin with in its charset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{charset}' codec can't decode bytes in position 0-{last}: Stream does not start with BOM")]
pub(super) struct NoMark {
    charset: &'static str,
    last: usize,
}

impl Charset {
    /// Finds a charset by a name, in any spelling that Python accepts: `UTF-8`, `utf_8`, `'utf 8'`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let words = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let normal = words.join("_").to_ascii_lowercase();
        let found = NAMES.iter().find(|(_, names)| names.split(' ').any(|known| known == normal));
        found.map(|(charset, _)| *charset)
    }

    /// Decodes a text; invalid bytes become replacement characters.
    ///
    /// # Errors
    /// [`NoMark`] for UTF-16 and UTF-32 without the byte order mark that Python wants there.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<String, NoMark> {
        Ok(match self {
            Self::Utf8Sig => {
                String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned()
            }
            Self::Utf16(order) => utf16(bytes, order),
            Self::MarkedUtf16 => match bytes {
                [0xff, 0xfe, rest @ ..] => utf16(rest, Little),
                [0xfe, 0xff, rest @ ..] => utf16(rest, Big),
                [_, _, ..] => return Err(NoMark { charset: "utf-16", last: 1 }),
                short => utf16(short, Little),
            },
            Self::Utf32(order) => utf32(bytes, order),
            Self::MarkedUtf32 => match bytes {
                [0xff, 0xfe, 0, 0, rest @ ..] => utf32(rest, Little),
                [0, 0, 0xfe, 0xff, rest @ ..] => utf32(rest, Big),
                [_, _, _, _, ..] => return Err(NoMark { charset: "utf-32", last: 3 }),
                short => utf32(short, Little),
            },
            Self::Ascii => {
                bytes.iter().map(|byte| ascii(*byte).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            Self::Latin1 => bytes.iter().copied().map(char::from).collect(),
            Self::Page(page) => {
                let page: Vec<char> = page.chars().collect();
                let of = |byte: &u8| ascii(*byte).unwrap_or_else(|| page[usize::from(*byte) - 128]);
                bytes.iter().map(of).collect()
            }
            Self::Web(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Self::Windows(encoding) => {
                let text = encoding.decode_without_bom_handling(bytes).0;
                text.replace(|c: char| matches!(c, '\u{80}'..='\u{9f}'), "\u{fffd}")
            }
            Self::Iso(encoding) => {
                let of = |byte: &u8| match byte {
                    0x80..=0x9f => char::from(*byte).to_string(),
                    byte => encoding.decode_without_bom_handling(&[*byte]).0.into_owned(),
                };
                bytes.iter().map(of).collect()
            }
        })
    }
}

fn ascii(byte: u8) -> Option<char> {
    byte.is_ascii().then(|| char::from(byte))
}

fn utf16(bytes: &[u8], order: Order) -> String {
    let encoding = if order == Little { UTF_16LE } else { UTF_16BE };
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

fn utf32(bytes: &[u8], order: Order) -> String {
    let of = |chunk: &[u8]| {
        let four: Option<[u8; 4]> = chunk.try_into().ok();
        let number = four
            .map(|four| if order == Little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) });
        number.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    bytes.chunks(4).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes, the charset's name, and Python's text.
    #[test]
    fn texts_are_those_that_python_reads() {
        for (bytes, name, text) in [
            (&b"a\x00\xfc\x00"[..], "utf-16le", "aü"),
            (b"\xff\xfea\x00", "UTF-16LE", "\u{feff}a"),
            (b"\x00a\x00\xfc", "utf_16_be", "aü"),
            (b"\xfe\xff\x00a", "utf-16", "a"),
            (b"\xff\xfea\x00", "utf16", "a"),
            (b"\xff\xfe", "utf-16", ""),
            (b"x", "utf-16", "\u{fffd}"),
            (b"", "utf-16", ""),
            (b"a\x00\x00\xd8b\x00", "utf-16le", "a\u{fffd}b"),
            (b"\xff\xfe\x00\x00a\x00\x00\x00", "utf-32", "a"),
            (b"\x00\x00\x00a", "utf-32be", "a"),
            (b"\xef\xbb\xbfa", "utf-8", "\u{feff}a"),
            (b"\xef\xbb\xbfa", "utf-8-sig", "a"),
            (b"a\x80\x93b", "ISO-8859-1", "a\u{80}\u{93}b"),
            (b"a\xe9\xc3b", "us-ascii", "a\u{fffd}\u{fffd}b"),
            (b"\x80\x81", "windows-1252", "€\u{fffd}"),
            (b"\xfe\x80", "iso-8859-9", "ş\u{80}"),
            (b"\xa4", "iso-8859-15", "€"),
            (b"\x82\x81\xb0", "cp437", "éü░"),
            (b"\xc4\xe3", "GBK", "你"),
            (b"\xcf\xf0", "cp1251", "Пр"),
        ] {
            let charset = Charset::of(name).unwrap_or_else(|| panic!("{name} is known"));
            assert_eq!(charset.decode(bytes).as_deref(), Ok(text), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_the_spellings_of_python() {
        for name in ["'utf-8'", "UTF 8", "utf_8", "\"latin-1", "ANSI_X3.4-1968"] {
            assert!(Charset::of(name).is_some(), "{name}");
        }
        for name in ["", "unheard-of", "hex", "utf-8x"] {
            assert!(Charset::of(name).is_none(), "{name}");
        }
        for page in [CP437, CP850, CP852] {
            assert_eq!(page.chars().count(), 128);
        }
    }

    #[test]
    fn a_text_that_must_have_a_mark_is_refused_without_one() {
        for (bytes, name, message) in [
            (
                &b"h\x00"[..],
                "utf-16",
                "'utf-16' codec can't decode bytes in position 0-1: Stream does not start with BOM",
            ),
            (
                b"h\x00\x00\x00",
                "utf-32",
                "'utf-32' codec can't decode bytes in position 0-3: Stream does not start with BOM",
            ),
        ] {
            let refused =
                Charset::of(name).map(|charset| charset.decode(bytes).map_err(|error| error.to_string()));
            assert_eq!(refused, Some(Err(message.to_owned())));
        }
    }
}
